// Compiles tree-sitter with one grammar each to WebAssembly, by a compiler that is
// WebAssembly itself, so that the same bytes come out wherever it runs: `make grammars`.
// With names of languages as arguments, only those.
import { runClang } from '@yowasp/clang';
import fs from 'node:fs';
import path from 'node:path';
import zlib from 'node:zlib';
import { fileURLToPath } from 'node:url';

const here = path.dirname(fileURLToPath(import.meta.url));
const modules = path.join(here, 'node_modules');

const languages = {
  c: ['tree-sitter-c', 'src'],
  cpp: ['tree-sitter-cpp', 'src'],
  java: ['tree-sitter-java', 'src'],
  javascript: ['tree-sitter-javascript', 'src'],
  python: ['tree-sitter-python', 'src'],
  rust: ['tree-sitter-rust', 'src'],
  tsx: ['tree-sitter-typescript', 'tsx/src'],
  typescript: ['tree-sitter-typescript', 'typescript/src'],
};

// sources gives the C files of a directory. The compiler's file system lacks "..".
function sources(dir) {
  const tree = {};
  for (const e of fs.readdirSync(dir, { withFileTypes: true })) {
    const at = path.join(dir, e.name);
    if (e.isDirectory() && e.name !== 'node_modules') tree[e.name] = sources(at);
    else if (/\.(c|h|inc)$/.test(e.name)) tree[e.name] = fs.readFileSync(at, 'utf8').replaceAll('"../../common/', '"common/');
  }
  return tree;
}

const core = sources(path.join(modules, 'tree-sitter/vendor/tree-sitter/lib'));
const only = process.argv.slice(2);
for (const [name, [module, src]] of Object.entries(languages)) {
  if (only.length > 0 && !only.includes(name)) continue;
  const scanner = fs.existsSync(path.join(modules, module, src, 'scanner.c')) ? [`g/${src}/scanner.c`] : [];
  const out = await runClang([
    'clang', '-O2', '-DNDEBUG', '-mexec-model=reactor', '-mbulk-memory', '-Icore/include', '-Icore/src', '-Ig', `-Ig/${src}`,
    `-DLANGUAGE=tree_sitter_${name}`, 'nodes.c', 'core/src/lib.c', `g/${src}/parser.c`, ...scanner,
    '-o', 'out.wasm', '-Wl,--gc-sections', '-Wl,--strip-all', '-Wl,-z,stack-size=262144',
  ], { core, g: sources(path.join(modules, module)), 'nodes.c': fs.readFileSync(path.join(here, 'nodes.c'), 'utf8') });
  const to = path.join(here, '..', 'wasm', `${name}.wasm.gz`);
  fs.mkdirSync(path.dirname(to), { recursive: true });
  const packed = zlib.gzipSync(out['out.wasm'], { level: 9 });
  fs.writeFileSync(to, packed);
  console.log(`${name}: ${out['out.wasm'].length} bytes, ${packed.length} compressed`);
}
