// The page of `untold check --html`: its data stand in the page itself.
import { byId } from "./dom.js";
import { FindingList } from "./finding_list.js";
import { themeButton } from "./theme.js";
import { visible } from "./writing.js";
/** @import {Place} from "./types.js" */

const report = /** @type {{summary: string, places: Place[]}} */ (JSON.parse(byId("data").textContent ?? ""));
const findings = new FindingList();
byId("summary").textContent = visible(report.summary);
byId("tools").append(themeButton());
byId("content").append(findings.element);
findings.show(report.places);
