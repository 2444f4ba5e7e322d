// Compiles every *.sol beside this file and writes bytecode/<Contract>.{runtime,creation}.hex.
//
// With --check it writes nothing and exits 1 when a checked-in file differs from what the compiler
// makes now. It needs the npm package named in COMPILER, installed anywhere Node finds it:
//
//     npm install --no-save --prefix DIR solc@0.8.37
//     NODE_PATH=DIR/node_modules node build.mjs [--check]

import { createRequire } from "node:module";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const COMPILER = "0.8.37";
const here = dirname(fileURLToPath(import.meta.url));

function compiler() {
  const solc = createRequire(import.meta.url)("solc");
  if (!solc.version().startsWith(`${COMPILER}+`)) {
    throw new Error(`solc ${COMPILER} is needed, found ${solc.version()}`);
  }
  return solc;
}

function compile(solc) {
  const names = readdirSync(here).filter((name) => name.endsWith(".sol")).sort();
  const sources = Object.fromEntries(
    names.map((name) => [name, { content: readFileSync(join(here, name), "utf8") }]),
  );
  const settings = {
    optimizer: { enabled: true, runs: 200 },
    evmVersion: "prague",
    metadata: { bytecodeHash: "none", appendCBOR: false },
    outputSelection: { "*": { "*": ["evm.bytecode.object", "evm.deployedBytecode.object"] } },
  };
  const input = JSON.stringify({ language: "Solidity", sources, settings });
  const output = JSON.parse(solc.compile(input));
  const problems = output.errors ?? [];
  if (problems.length > 0) {
    throw new Error(problems.map((problem) => problem.formattedMessage).join("\n"));
  }
  return output.contracts;
}

function bytecodeFiles(contracts) {
  const files = new Map();
  for (const [source, units] of Object.entries(contracts)) {
    const name = source.replace(/\.sol$/, "");
    const { bytecode, deployedBytecode } = units[name].evm;
    files.set(`${name}.creation.hex`, bytecode.object);
    files.set(`${name}.runtime.hex`, deployedBytecode.object);
  }
  return files;
}

function current(path) {
  try {
    return readFileSync(path, "utf8").trim();
  } catch {
    return undefined;
  }
}

const check = process.argv.includes("--check");
let differing = 0;
for (const [name, code] of bytecodeFiles(compile(compiler()))) {
  const path = join(here, "bytecode", name);
  if (current(path) === code) continue;
  differing += 1;
  if (check) console.error(`bytecode/${name} differs from what solc ${COMPILER} makes`);
  else writeFileSync(path, `${code}\n`);
}
console.log(check ? `${differing} files differ` : `${differing} files written`);
process.exitCode = check && differing > 0 ? 1 : 0;
