"""Tests what the Chinese-English grammar must derive, must not derive, and must align.

A process without type checks runs the grammar: with them its inner loops would take minutes.
"""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

FIGURE = "布什 为 他 振兴 经济 的 计划 辩护 。", "Bush defended his plan to revive the economy ."

ASK = """
import json, sys
from itertools import islice
sys.path.append(sys.argv[1])
from grammar_recognition import count_derivations, derive
from untold.lab.grammars.sampling import load_grammar

grammar = load_grammar("zh-en")
samples = list(islice(grammar.stream(seed=3), 1500))
short = [s for s in samples if len(s.source) <= 12][:30]
pairs = [(" ".join(s.source), " ".join(s.target)) for s in short]
found = [(*pair, derive(grammar, *pair)) for pair in [*json.load(sys.stdin), *pairs]]
answers = {
    "languages": grammar.languages,
    "entries": grammar.entries,
    "count": count_derivations(grammar.plain, 8),
    "length": grammar.notation.length,
    "samples": [(s.source, s.target, s.alignment) for s in samples],
    "derived": [(s, t, one and one.alignment) for s, t, one in found],
}
json.dump(answers, sys.stdout)
"""


@dataclass(frozen=True)
class Pair:
    """Holds a sampled pair."""

    source: list[str]
    target: list[str]
    alignment: list[list[int]]


RIGHT = [
    pytest.param(*FIGURE, id="为 … 辩护, plan to"),
    pytest.param(
        "张伟 昨天 把 那 辆 自行车 卖 给 了 我 爷爷 。",
        "Zhang Wei sold that bicycle to my grandfather yesterday .",
        id="把",
    ),
    pytest.param(
        "那 个 花瓶 被 那些 孩子 打碎 了 。",
        "That vase was broken by those children .",
        id="被",
    ),
    pytest.param("这 位 医生 帮 了 我 的 忙 。", "This doctor helped me .", id="帮 … 的 忙"),
    pytest.param(
        "李娜 是 坐 火车 去 上海 的 。",
        "It was by train that Li Na went to Shanghai .",
        id="是 … 的",
    ),
    pytest.param("你 喜欢 茶 吗 ？", "Do you like tea ?", id="吗, do"),
    pytest.param("汤姆 认识 她 吗 ？", "Does Tom know her ?", id="吗, does"),
    pytest.param(
        "你 昨天 买 了 哪 本 书 ？", "Which book did you buy yesterday ?", id="wh in place"
    ),
    pytest.param("你 是 在 哪里 学习 汉语 的 ？", "Where did you study Chinese ?", id="哪里"),
    pytest.param("她 买 了 一 个 苹果 。", "She bought an apple .", id="an"),
    pytest.param("她 买 了 一 个 新鲜 的 苹果 。", "She bought a fresh apple .", id="a fresh"),
    pytest.param("他 是 一 位 诚实 的 律师 。", "He is an honest lawyer .", id="an honest"),
    pytest.param("她 喝 了 两 杯 茶 。", "She drank two cups of tea .", id="measure"),
    pytest.param(
        "我 昨天 采访 的 那些 记者 很 勤奋 。",
        "Those journalists whom I interviewed yesterday are hardworking .",
        id="relative clause of the object",
    ),
    pytest.param(
        "昨天 买 那 辆 汽车 的 医生 没 去 火车站 。",
        "The doctor who bought that car yesterday did not go to the train station .",
        id="relative clause of the subject, 没",
    ),
    pytest.param(
        "因为 李娜 很 累 ， 所以 她 没 去 机场 。",
        "Because Li Na was tired , she did not go to the airport .",
        id="因为 … 所以",
    ),
    pytest.param(
        "虽然 他 很 忙 ， 但是 他 还是 参加 了 那 次 会议 。",
        "Although he was busy , he still attended that meeting .",
        id="虽然 … 但是",
    ),
    pytest.param(
        "如果 明天 下雨 ， 我们 就 不 会 去 那 个 公园 。",
        "If it rains tomorrow , we will not go to that park .",
        id="如果 … 就",
    ),
    pytest.param(
        "当 刘洋 离开 北京 的 时候 ， 我们 正在 下棋 。",
        "When Liu Yang left Beijing , we were playing chess .",
        id="当 … 的 时候",
    ),
    pytest.param(
        "这 本 书 比 那 本 有趣 。", "This book is more interesting than that one .", id="比"
    ),
    pytest.param("桌子 上 有 两 封 信 。", "There are two letters on the table .", id="there"),
    pytest.param("她 解释 了 这 个 现象 。", "She accounted for this phenomenon .", id="two words"),
    pytest.param("我 从来 没 去 过 北京 。", "I have never been to Beijing .", id="过"),
    pytest.param("王芳 游 了 两 个 小时 泳 。", "Wang Fang swam for two hours .", id="split"),
    pytest.param(
        "玛丽 不 应该 小题大做 。",
        "Mary should not make a mountain out of a molehill .",
        id="set phrase",
    ),
    pytest.param(
        "她 二零零八 年 八 月 二 日 离开 了 上海 。",
        "She left Shanghai on August 2 , 2008 .",
        id="date",
    ),
    pytest.param(
        "三百五十 名 学生 参加 了 这 场 比赛 。",
        "Three hundred and fifty students took part in this game .",
        id="large number",
    ),
    pytest.param(
        "他 不 想 卖掉 他 的 电脑 。", "He does not want to sell his computer .", id="modal"
    ),
    pytest.param(
        "张伟 在 这 家 商店 里 买 了 三 把 雨伞 。",
        "Zhang Wei bought three umbrellas in this shop .",
        id="place before the verb",
    ),
    pytest.param(
        "那 本 小说 ， 我 妈妈 已经 看完 了 。",
        "My mother has already finished reading that novel .",
        id="topic",
    ),
]

WRONG = [
    pytest.param("她 买 了 一 张 苹果 。", "She bought an apple .", id="classifier"),
    pytest.param("她 买 了 一 个 苹果 。", "She bought a apple .", id="a for an"),
    pytest.param("她 买 了 二 个 苹果 。", "She bought two apples .", id="二 for 两"),
    pytest.param("她 没 买 了 那 本 书 。", "She did not buy that book .", id="没 with 了"),
    pytest.param(
        "这 三 个 孩子们 很 可爱 。", "These three children are cute .", id="们 with a number"
    ),
    pytest.param("她 每天 学习 汉语 。", "She study Chinese every day .", id="agreement"),
    pytest.param("你 喜欢 茶 吗 ？", "Does you like tea ?", id="do with you"),
    pytest.param("她 昨天 买 了 书 。", "She will buy books yesterday .", id="tense"),
    pytest.param("那 个 苹果 吃掉 了 王芳 。", "That apple ate up Wang Fang .", id="sense"),
    pytest.param(
        "因为 李娜 很 累 ， 所以 他 没 来 。",
        "Because Li Na was tired , he did not come .",
        id="gender of the pronoun",
    ),
    pytest.param(
        "我们 就 不 会 去 那 个 公园 。", "We will not go to that park", id="no full stop"
    ),
    pytest.param(
        "布什 辩护 为 他 振兴 经济 的 计划 。",
        "Bush defended his plan to revive the economy .",
        id="word order",
    ),
]

ALIGNED = [
    pytest.param(
        *FIGURE,
        "布什-Bush 为-defended 辩护-defended 他-his 振兴-revive 经济-economy 计划-plan 。-.",
        id="figure",
    ),
    pytest.param(
        "李娜 昨天 把 那 辆 自行车 借 给 了 我 叔叔 。",
        "Li Na lent that bicycle to my uncle yesterday .",
        "李娜-Li 李娜-Na 昨天-yesterday 那-that 自行车-bicycle 借-lent 给-to 我-my 叔叔-uncle 。-.",
        id="把",
    ),
    pytest.param("你 喜欢 茶 吗 ？", "Do you like tea ?", "你-you 喜欢-like 茶-tea ？-?", id="do"),
    pytest.param(
        "这 位 医生 帮 了 陈静 的 忙 。",
        "This doctor helped Chen Jing .",
        "这-This 医生-doctor 帮-helped 忙-helped 陈静-Chen 陈静-Jing 。-.",
        id="帮 … 的 忙",
    ),
    pytest.param(
        "那 个 花瓶 被 她 女儿 打碎 了 。",
        "That vase was broken by her daughter .",
        "那-That 花瓶-vase 被-by 她-her 女儿-daughter 打碎-broken 。-.",
        id="被",
    ),
    pytest.param(
        "因为 李娜 很 累 ， 所以 她 没 去 火车站 。",
        "Because Li Na was tired , she did not go to the train station .",
        "因为-Because 所以-Because 李娜-Li 李娜-Na 累-tired ，-, 她-she 没-not 去-go 去-to"
        " 火车站-train 火车站-station 。-.",
        id="因为 … 所以",
    ),
]


@pytest.fixture(scope="module")
def answers() -> dict:
    """Returns the answers of the grammar to all questions of this file."""
    pairs = [case.values[:2] for case in (*RIGHT, *WRONG, *ALIGNED)]
    asked = [sys.executable, "-c", ASK, str(Path(__file__).parents[2])]
    done = subprocess.run(asked, input=json.dumps(pairs), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def samples(answers: dict) -> list[Pair]:
    return [Pair(*sample) for sample in answers["samples"]]


@pytest.fixture(scope="module")
def derived(answers: dict) -> dict[tuple[str, str], list[list[int]] | None]:
    """Maps each pair that a test asks for to its alignment, if the grammar has the pair."""
    return {(source, target): alignment for source, target, alignment in answers["derived"]}


def test_languages_and_lexicon(answers: dict):
    assert answers["languages"] == ["zh", "en"]
    assert answers["entries"] >= 250


def test_more_than_a_million_pairs(answers: dict):
    assert answers["count"] > 1_000_000


@pytest.mark.parametrize(("source", "target"), RIGHT)
def test_derives(derived: dict, source: str, target: str):
    assert derived[source, target] is not None


@pytest.mark.parametrize(("source", "target"), WRONG)
def test_does_not_derive(derived: dict, source: str, target: str):
    assert derived[source, target] is None


@pytest.mark.parametrize(("source", "target", "expected"), ALIGNED)
def test_alignment(derived: dict, source: str, target: str, expected: str):
    """The expected links name words, because no word occurs twice on a side here."""
    words = source.split(), target.split()
    links = {f"{words[0][s]}-{words[1][t]}" for s, t in derived[source, target] or []}
    assert links == set(expected.split())


def test_samples_are_derivable_with_their_alignment(answers: dict, samples: list[Pair]):
    drawn = {(" ".join(s.source), " ".join(s.target)): s.alignment for s in samples}
    again = [(s, t, alignment) for s, t, alignment in answers["derived"] if (s, t) in drawn]
    assert len(again) >= 30
    assert all(alignment == drawn[s, t] for s, t, alignment in again)


def test_samples_are_aligned_within_their_words(answers: dict, samples: list[Pair]):
    shortest, longest = answers["length"]
    for sample in samples:
        rows, columns = len(sample.source), len(sample.target)
        assert shortest <= min(rows, columns) and max(rows, columns) <= longest
        assert sample.alignment
        assert all(0 <= s < rows and 0 <= t < columns for s, t in sample.alignment)


def test_samples_vary(samples: list[Pair]):
    lengths = sorted(len(sample.source) for sample in samples)
    assert 12 <= sum(lengths) / len(lengths) <= 16
    assert lengths[0] <= 4
    assert lengths[-1] >= 30
    assert len({(*s.source, *s.target) for s in samples}) > 0.95 * len(samples)


def test_samples_begin_and_end_as_sentences(samples: list[Pair]):
    for sample in samples:
        assert sample.target[0][0].isupper()
        assert (sample.source[-1], sample.target[-1]) in {("。", "."), ("？", "?")}


def test_article_suits_the_next_sound(samples: list[Pair]):
    vowels = {"honest", "hour"}
    consonants = {"university", "useful"}
    for sample in samples:
        for article, word in zip(sample.target, sample.target[1:], strict=False):
            if article.lower() in ("a", "an"):
                vowel = (word[0] in "aeiou" or word in vowels) and word not in consonants
                assert (article.lower() == "an") == vowel, sample


def test_no_perfective_after_a_negated_verb(samples: list[Pair]):
    for sample in samples:
        words = sample.source
        if words.count("没") == 1 and words.count("了") == 1 and not {"，", "；"} & set(words):
            assert words.index("了") < words.index("没"), sample


def test_er_counts_only_months_and_days(samples: list[Pair]):
    for sample in samples:
        for number, word in zip(sample.source, sample.source[1:], strict=False):
            assert number != "二" or word in ("月", "日"), sample
