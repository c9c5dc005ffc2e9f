"""The bodies of requests: JSON as the standard has it, and what each field may be."""

import json
import math
import re
from typing import Annotated, Any, NoReturn

from pydantic import BaseModel, ConfigDict, Field

from untold.serve.api_errors import ApiError

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")  # may be one half of a pair without the other

ModelName = Annotated[
    str | None, Field(description="The name of a model; the first one if it is left out.")
]
Beam = Annotated[int | None, Field(ge=1, description="Hypotheses kept at each step.")]
LengthPenalty = Annotated[
    float | None, Field(ge=0, le=10, description="Larger values prefer longer translations.")
]


class _Body(BaseModel):
    """Refuses fields that it does not know, and values of another type."""

    model_config = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)


class TranslateBody(_Body):
    """Texts to translate."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"texts": ["The child reads a book ."], "beam": 4}]}
    )
    model: ModelName = None
    texts: Annotated[list[str], Field(min_length=1, description="Texts in the source language.")]
    beam: Beam = None
    nbest: Annotated[int | None, Field(ge=1, description="Translations of each text.")] = None
    length_penalty: LengthPenalty = None
    prefixes: Annotated[
        list[str] | None, Field(description="How each translation must begin, one for each text.")
    ] = None
    trace: Annotated[bool, Field(description="Say how each translation came about.")] = False


_PAIR_EXAMPLE = ConfigDict(
    json_schema_extra={
        "examples": [
            {"pairs": [{"source": "The child reads a book .", "target": "Das Kind liest ."}]}
        ]
    }
)


class ExplainedPair(_Body):
    """A source and, unless the model is to translate it, its translation."""

    source: str
    target: str | None = None


class ExplainBody(_Body):
    """Pairs to explain."""

    model_config = _PAIR_EXAMPLE
    model: ModelName = None
    pairs: Annotated[
        list[ExplainedPair],
        Field(min_length=1, description="Objects with source and, unless to be found, target."),
    ]


class CheckedPair(_Body):
    """A source and its translation."""

    source: str
    target: str


class FileBody(_Body):
    """A file with translations; its name says what format it has."""

    name: str
    content: Annotated[str, Field(description="The bytes of the file in base64.")]


class CheckBody(_Body):
    """Pairs or a file to check."""

    model_config = _PAIR_EXAMPLE
    model: ModelName = None
    pairs: Annotated[
        list[CheckedPair] | None,
        Field(min_length=1, description="Objects with source and target."),
    ] = None
    file: Annotated[
        FileBody | None, Field(description="Or a file: its name, and its content in base64.")
    ] = None
    threshold: Annotated[
        float, Field(ge=0, le=1, description="Report words from this probability on.")
    ] = 0.5
    expected: Annotated[
        float, Field(ge=0.001, le=0.999, description="The share of pairs with a mistake.")
    ] = 0.1
    stream: Annotated[
        bool, Field(description="Send events: progress now and then, and the answer as end.")
    ] = False


class StreamBody(_Body):
    """A text to translate step by step."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"text": "The child reads a book ."}]}
    )
    model: ModelName = None
    text: Annotated[str, Field(description="A text in the source language.")]
    prefix: Annotated[str, Field(description="How the translation must begin.")] = ""
    beam: Beam = None
    length_penalty: LengthPenalty = None


def read_json(body: bytes) -> Any:
    """Reads JSON in UTF-8 without NaN, without infinities and without halves of characters."""
    try:
        value = json.loads(
            body.decode(), parse_constant=_refuse_constant, parse_float=_finite_float
        )
        if _SURROGATE.search(body):
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise _malformed("it is nested too deeply: write it with fewer levels") from None
    except UnicodeEncodeError:
        raise _malformed(r"it holds half of a character (\ud800 to \udfff alone)") from None
    except UnicodeDecodeError as error:
        raise _malformed(f"byte {error.start + 1} is not UTF-8: encode it as UTF-8") from None
    except json.JSONDecodeError as error:
        raise _malformed(
            f"{error.msg.removesuffix(' at')} at character {error.pos + 1}: mend it"
        ) from None
    except ValueError as error:
        raise _malformed(str(error)) from None
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON: leave it out")


def _finite_float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number is too large: write a smaller one")
    return number


def _malformed(reason: str) -> ApiError:
    return ApiError(400, "not_json", f"the body is not JSON: {reason}")
