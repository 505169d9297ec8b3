package calls

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"toolhost.dev/host/test/hosttest"
)

// values contains a value for each parameter that the usage line of a tool can require, and for parameters of which one is
// needed.
var values = map[string]string{
	"file_path": "a.txt", "notebook_path": "plot.ipynb", "command": "echo two words", "pattern": "two", "query": "main",
	"url": "https://nowhere.invalid/", "name": "retry", "question": "Which one?", "code": "true", "action": "list",
	"old_string": "two", "new_string": "2", "new_source": "print(1)", "content": "one", "cell_number": "0",
}

// described is a tool as "toolhost --json tools" prints it.
type described struct {
	Name     string
	Examples []string
}

// called is the part of a result that shows whether the tool got its arguments.
type called struct {
	Metadata struct{ Tool string }
	Error    *struct{ Kind, Message string }
}

// TestUsage runs the usage line and every example in the help of each tool, as a command and as a function call. The tool
// must run, and not a program of its name. Its arguments must be valid.
func TestUsage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config, state := filepath.Join(dir, "host.hcl"), hosttest.KeptState(t, dir+".state")
	work := filepath.Join(dir, "work")
	hosttest.Must(t, os.MkdirAll(filepath.Join(work, "src"), 0o755))
	hosttest.Must(t, os.WriteFile(config, []byte("plugin \"web\" {\n  sandbox { network = [\"nowhere.invalid\"] }\n}\n"), 0o600))
	hosttest.Must(t, os.WriteFile(filepath.Join(work, "a.txt"), []byte("one\ntwo\n"), 0o600))
	toolhost := hosttest.NewResident(t)
	run := func(args ...string) string {
		out, _, _ := toolhost.Run(t, work, []string{"HOME=" + dir, "XDG_RUNTIME_DIR="}, append([]string{"--config", config, "--state", state, "--on-ask", "allow"}, args...)...)
		return out
	}
	var tools []described
	if err := json.Unmarshal([]byte(run("--json", "tools")), &tools); err != nil || len(tools) < 15 {
		t.Fatalf("%v: %d tools", err, len(tools))
	}
	check := func(name, what, out string) {
		var o called
		if err := json.Unmarshal([]byte(out), &o); err != nil {
			t.Errorf("%s: %s: %v: %s", name, what, err, out)
		} else if o.Error != nil && (o.Error.Kind == "invalid_arguments" || strings.Contains(o.Error.Message, "command not found")) || o.Metadata.Tool != name && !strings.HasPrefix(what, "tool:") {
			t.Errorf("%s: %s: %s", name, what, out)
		}
	}
	for _, d := range tools {
		help := run("run", "help "+d.Name)
		usage, arguments := filled(t, help)
		check(d.Name, usage, run("--json", "run", usage))
		for _, example := range d.Examples {
			if !strings.Contains(help, strings.ReplaceAll(example, "\n", "\n  ")) {
				t.Errorf("%s: the help lacks the example %q", d.Name, example)
			}
			check(d.Name, example, run("--json", "run", example))
		}
		given, err := json.Marshal(arguments)
		hosttest.Must(t, err)
		check(d.Name, "the function call "+string(given), run("--json", "run", fmt.Sprintf(`{"name":%q,"arguments":%s}`, d.Name, given)))
	}
}

var (
	required = regexp.MustCompile(` <(\w+)>`)
	optional = regexp.MustCompile(`(?m)^  --(\w+) \((boolean|integer|string)(?:; default (\w+))?`)
)

// filled returns the command of a usage line, and the arguments of the same call. Optional parameters take their defaults and
// the known values. They take the place of the parameters in brackets.
func filled(t *testing.T, help string) (command string, arguments map[string]any) {
	usage, _, _ := strings.Cut(help, "\n")
	command, ok := strings.CutPrefix(usage, "Usage: ")
	if !ok {
		t.Fatalf("no usage line: %s", help)
	}
	arguments = make(map[string]any)
	command = required.ReplaceAllStringFunc(command, func(word string) string {
		name := strings.Trim(word, " <>")
		if values[name] == "" {
			t.Errorf("%s: there is no value for %s", usage, name)
		}
		arguments[name] = values[name]
		return " '" + values[name] + "'"
	})
	if before, more := strings.CutSuffix(command, " [--parameter value …]"); more {
		command = before
		for _, m := range optional.FindAllStringSubmatch(help, -1) {
			name, kind, value := m[1], m[2], m[3]
			if value == "" {
				value = values[name]
			}
			if _, given := arguments[name]; given || value == "" {
				continue
			}
			command += " --" + name + "='" + value + "'"
			arguments[name] = value
			if kind != "string" {
				arguments[name] = json.RawMessage(value)
			}
		}
	}
	return command, arguments
}
