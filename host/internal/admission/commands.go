package admission

import (
	"path/filepath"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"toolhost.dev/host/internal/lazyregexp"
	"toolhost.dev/host/internal/trust"
)

// interpreter describes the command line of a program that runs code from files. The options come first, then
// the script, then the arguments of the script.
//
// Files up to the script are code. What the script does with its own arguments is the decision of the script, whose
// content is trusted. Therefore a file after the script is data, which can change, unless it is executable or has the
// extension of code; see ADR 11.
type interpreter struct {
	names *lazyregexp.Regexp
	// The list "values" contains the options whose value is the next argument. An unlisted option with such a value
	// only makes more files count as code, unless the value has the extension of code. The list "last" contains the
	// options whose value is the script.
	values, last []string
	// The list "commands" contains the words before the script, such as "run".
	commands []string
	// launches means that the first word is another program, which the other words are for. The field "packages" means
	// that the first word can also be a script or a package. The field "shell" means that after the option -c the first
	// word is a script.
	launches, packages, shell bool
	// If "lists" is true, a word that begins with "@" names a file with options.
	lists bool
	// whole means that all arguments and variables are code.
	whole bool
}

// interpreters lists the programs that run files in their arguments.
var interpreters = []interpreter{
	{names: lazyregexp.New(`^((r?ba|da|z|k|mk|pdk|tc|c|fi|a|ya|el|xon)?sh|nu)[0-9.]*$`), values: strings.Fields("-C --init-command --rcfile --init-file"), shell: true},
	{names: lazyregexp.New(`^(\.|source)$`)},
	{names: lazyregexp.New(`^(python|pypy)[0-9.]*$`), values: strings.Fields("-W -X --check-hash-based-pycs"), last: strings.Fields("-c -m")},
	{names: lazyregexp.New(`^(node|nodejs|tsx|ts-node|ts-node-esm|vite-node|babel-node|nodemon|electron)[0-9.]*$`), commands: strings.Fields("watch inspect debug"), values: strings.Fields(`-r --require --import --loader
		--experimental-loader -C --conditions -e --eval -p --print -pe --env-file --env-file-if-exists --input-type --icu-data-dir --openssl-config
		--title --inspect-port --tsconfig -P --project --cwd --dir -O --compilerOptions --test-reporter --snapshot-blob --watch-path --run
		--experimental-config-file --disable-warning --unhandled-rejections --dns-result-order --redirect-warnings --diagnostic-dir`)},
	{names: lazyregexp.New(`^deno$`), commands: strings.Fields("run serve task eval x"), values: strings.Fields(`-c --config --import-map --lock --cert --location
		--seed -L --log-level --ext --preload --require --import`)},
	{names: lazyregexp.New(`^bunx?$`), commands: strings.Fields("run x"), values: strings.Fields(`-r --preload --require --import -c --config --cwd -e --eval -p --print
		--env-file --tsconfig-override -d --define -l --loader --package`)},
	{names: lazyregexp.New(`^ruby[0-9.]*$`), values: strings.Fields("-I -r -C -E -e")},
	{names: lazyregexp.New(`^perl[0-9.]*$`), values: strings.Fields("-I -M -m -e -E")},
	{names: lazyregexp.New(`^lua(jit)?[0-9.]*$`), values: strings.Fields("-l -e")},
	{names: lazyregexp.New(`^[gmno]?awk$`), values: strings.Fields("-f --file -i --include -l --load -F -v -e --source -E --exec")},
	{names: lazyregexp.New(`^g?sed$`), values: strings.Fields("-f --file -e --expression -l")},
	{names: lazyregexp.New(`^(tclsh|wish|expect|Rscript|julia|escript|guile|racket|jbang|bb)[0-9.]*$`), values: strings.Fields("-e -E -f -l -L -p -J")},
	{names: lazyregexp.New(`^php[0-9.]*$`), values: strings.Fields("-c -d -B -R -F -E -S -t -z"), last: strings.Fields("-f -r")},
	{names: lazyregexp.New(`^java[0-9.]*$`), lists: true, last: strings.Fields("-jar -m --module"), values: strings.Fields(`-cp -classpath --class-path -p --module-path
		--upgrade-module-path --add-modules --limit-modules --add-opens --add-exports --add-reads --patch-module --enable-native-access --source`)},
	{names: lazyregexp.New(`^(npx|npm|pnpm|pnpx|yarn|corepack)$`), commands: strings.Fields("run run-script exec x dlx start npx npm pnpm yarn"), launches: true, packages: true, values: strings.Fields(`-p --package -c --call -w --workspace --prefix --userconfig --registry
		-C --dir --cwd --filter -F --globalconfig --node-options --script-shell`)},
	{names: lazyregexp.New(`^uvx?$`), commands: strings.Fields("tool run"), launches: true, packages: true, last: strings.Fields("-m --module"), values: strings.Fields(`--from --with --with-editable
		--with-requirements -w -p --python -i --index-url --extra-index-url --index --default-index -f --find-links --directory --project --package
		--env-file --config-file --cache-dir -c --constraints --overrides --extra --group --only-group --no-group --no-extra -P --refresh-package`)},
	{names: lazyregexp.New(`^(poetry|pipenv|pipx|pdm|hatch|rye|pixi|conda|mamba|micromamba|bundle|mise|rbenv|pyenv|nvm|fnm|volta|asdf|direnv)$`),
		commands: strings.Fields("run exec x"), launches: true, values: strings.Fields("-C --directory --project -p --python --spec -n --name --gemfile -e")},
	{names: lazyregexp.New(`^(env|nohup|setsid|nice|ionice|timeout|time|exec|command|sudo|doas|stdbuf|unbuffer|taskset|chrt|flock|xargs|strace|busybox|cross-env)$`), launches: true, values: strings.Fields(`-u --unset -C --chdir -S
		--split-string -n --adjustment -s --signal -k --kill-after -g`)},
	{names: lazyregexp.New(`^(g?make|just|task|rake|mage|gradlew?|mvnw?|ant|ninja|bazel|cargo|go|dotnet|nix|nix-shell|nix-build|devbox|swift|dart|mix|elixir|iex|lein|sbt|stack|cabal|scala|kotlin|groovy|pwsh|powershell|docker-compose)$`), whole: true},
}

// codeVariables matches the names of variables whose files a dynamic linker, an interpreter or a package manager loads
// as code. The other variables are data of the program.
var codeVariables = lazyregexp.New(`^(LD_|DYLD_|PYTHON|NODE_|BASH_|PERL|RUBY|GEM_|BUNDLE_|LUA|PHP|JAVA_|_JAVA_|JDK_|DENO_|NPM_|npm_|UV_|PIP_|BUN_|TS_NODE_|TSX_|MAKE|OPENSSL_|GIT_)|^(ENV|ZDOTDIR|CLASSPATH|GCONV_PATH|PROMPT_COMMAND)$`)

// preceding matches the words between a launcher and the program, such as NAME=VALUE of env and the duration of
// timeout.
var preceding = lazyregexp.New(`^([A-Za-z_][A-Za-z0-9_]*=|[0-9.]+[smhd]?$)`)

// begins returns the index of the word in a command that names an interpreter. It returns 0 if no word does. Programs
// that are not in the table can start others, such as a proxy for a server.
func begins(argv []string) int {
	for i, word := range argv {
		if in := interpreterOf(word); in != nil &&
			(i == 0 || !in.launches && !in.whole && !sources(word) || in.packages) {
			return i
		}
	}
	return 0
}

// sources reports whether a word is the command of a shell that runs a file, which is no program.
func sources(word string) bool { return word == "." || word == "source" }

// interpreterOf returns the interpreter with the name of a program, or nil.
func interpreterOf(program string) *interpreter {
	for i := range interpreters {
		if interpreters[i].names.MatchString(filepath.Base(program)) {
			return &interpreters[i]
		}
	}
	return nil
}

// codeWords returns the number of the first words of a command that are code, including the program. The result "text"
// is the index of a shell script among these words, or 0. codeWords returns 0 if the program is no interpreter.
func codeWords(argv []string) (n, text int) {
	in := interpreterOf(argv[0])
	if in == nil {
		return 0, 0
	}
	inline, unsure := false, false // whether a script is in an argument; whether a word can be the value of an unknown option
	for n := 1; n < len(argv) && !in.whole; n++ {
		word := argv[n]
		switch {
		case slices.Contains(in.last, word):
			return min(n+2, len(argv)), 0
		case slices.Contains(in.values, word):
			n++
		case strings.HasPrefix(word, "-") || in.shell && strings.HasPrefix(word, "+") ||
			in.lists && strings.HasPrefix(word, "@"):
			if in.shell && !strings.HasPrefix(word, "--") && strings.ContainsAny(word, "oO") { // such as -euo pipefail
				n++
			}
			inline = inline || in.shell && !strings.HasPrefix(word, "--") && strings.Contains(word, "c")
			unsure = strings.HasPrefix(word, "--") && word != "--" && !strings.Contains(word, "=")
			continue
		case inline: // the arguments of an inline script are code, because many such scripts only execute them
			return len(argv), n
		case slices.Contains(in.commands, word) || in.launches && preceding.MatchString(word) ||
			unsure && !trust.IsCode(word):
		case in.launches && interpreterOf(word) != nil && !sources(word):
			more, text := codeWords(argv[n:])
			if text > 0 {
				text += n
			}
			return n + more, text
		case in.launches && !in.packages: // a program with an unknown command line
			return len(argv), 0
		default:
			return n + 1, 0
		}
		unsure = false
	}
	return len(argv), 0
}

// withoutData replaces the data in a shell script by spaces: the arguments after the script of an interpreter, and the
// files to which commands write their output. It returns the whole text if the text has a syntax error.
func withoutData(text string) string {
	file, err := syntax.NewParser().Parse(strings.NewReader(text), "")
	if err != nil {
		return text
	}
	out := []byte(text)
	blank := func(words ...*syntax.Word) {
		for _, w := range words {
			copy(out[w.Pos().Offset():w.End().Offset()], strings.Repeat(" ", len(text)))
		}
	}
	syntax.Walk(file, func(node syntax.Node) bool {
		switch node := node.(type) {
		case *syntax.Redirect:
			switch node.Op {
			case syntax.RdrOut, syntax.AppOut, syntax.RdrClob, syntax.RdrAll, syntax.AppAll:
				blank(node.Word)
			}
		case *syntax.CallExpr:
			if n := codeWordsOf(node.Args); n > 0 {
				blank(node.Args[n:]...)
			}
		}
		return true
	})
	return string(out)
}

// codeWordsOf is like codeWords for a command in a shell script. It returns 0 if an expansion determines which words
// are code.
func codeWordsOf(words []*syntax.Word) int {
	var argv []string
	for _, w := range words {
		lit, ok := literal(w)
		if argv = append(argv, lit); !ok {
			break
		}
	}
	if len(argv) == 0 {
		return 0
	}
	_, known := literal(words[len(argv)-1])
	n, _ := codeWords(argv)
	if !known && n == len(argv) {
		return 0
	}
	return n
}

// literal returns the text of a word without expansions.
func literal(w *syntax.Word) (text string, ok bool) {
	for _, part := range w.Parts {
		switch part := part.(type) {
		case *syntax.Lit:
			text += part.Value
		case *syntax.SglQuoted:
			text += part.Value
		case *syntax.DblQuoted:
			inner, ok := literal(&syntax.Word{Parts: part.Parts})
			if !ok {
				return "", false
			}
			text += inner
		default:
			return "", false
		}
	}
	return text, true
}
