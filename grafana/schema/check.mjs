// Type-checks the dashboards as Grafana's own types describe them (npm: @grafana/schema, typescript).
//
// A file becomes a literal of the type Dashboard with time series panels, so that a field that Grafana does
// not know, or one that it needs and does not find, is an error of the compiler. Enums are spelled as
// the texts that they stand for, since JSON has no others.

import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { createRequire } from "node:module";

const [tools, ...files] = process.argv.slice(2);
const ts = createRequire(path.join(tools, "node_modules", "x.js"))("typescript");

const TYPES = `
import type { AnnotationQuery, Dashboard, DataQuery, FieldConfigSource, GraphFieldConfig, Panel } from "@grafana/schema";
import type { Options } from "@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen";
type Plain<T> = T extends string ? \`\${T}\` : T extends number ? T | (\`\${T}\` extends \`\${infer N extends number}\` ? N : never)
  : T extends (infer U)[] ? Plain<U>[] : T extends object ? { [K in keyof T]: Plain<T[K]> } : T;
interface Query extends DataQuery { expr: string; legendFormat: string; range: boolean }
interface Field extends Omit<FieldConfigSource, "defaults"> { defaults: Omit<FieldConfigSource["defaults"], "custom"> & { custom: GraphFieldConfig } }
interface Drawn extends Omit<Panel, "options" | "fieldConfig" | "targets" | "gridPos" | "id"> {
  id: number; gridPos: NonNullable<Panel["gridPos"]>; targets: Query[]; options: Options; fieldConfig: Field;
}
interface Marks extends AnnotationQuery { expr: string; step: string; titleFormat: string; textFormat: string }
interface Board extends Omit<Dashboard, "panels" | "annotations"> {
  uid: string; title: string; panels: Drawn[]; annotations: { list: Marks[] };
}
`;

const folder = fs.mkdtempSync(path.join(os.tmpdir(), "dashboards-"));
fs.symlinkSync(path.join(path.resolve(tools), "node_modules"), path.join(folder, "node_modules"));
const sources = files.map((file) => {
  const source = path.join(folder, path.basename(file, ".json") + ".ts");
  fs.writeFileSync(source, `${TYPES}export const board: Plain<Board> = ${fs.readFileSync(file, "utf8")};\n`);
  return source;
});
const program = ts.createProgram(sources, {
  strict: true,
  noEmit: true,
  skipLibCheck: true,
  types: [],
  target: ts.ScriptTarget.ES2022,
  module: ts.ModuleKind.ESNext,
  moduleResolution: ts.ModuleResolutionKind.Bundler,
});
const found = ts.getPreEmitDiagnostics(program);
for (const one of found) {
  const place = one.file && one.start !== undefined
    ? `${path.basename(one.file.fileName)}:${one.file.getLineAndCharacterOfPosition(one.start).line + 1}: `
    : "";
  console.error(place + ts.flattenDiagnosticMessageText(one.messageText, "\n"));
}
fs.rmSync(folder, { recursive: true });
if (found.length > 0 || sources.length === 0) process.exit(1);
console.error(`${sources.length} dashboards are as Grafana's types say`);
