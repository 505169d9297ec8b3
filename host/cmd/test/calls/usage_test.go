package calls

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/host/cmd/test/hosttest"
)

// values contains a value for each parameter that the usage line of a tool can require.
var values = map[string]string{
	"file_path": "a.txt", "notebook_path": "plot.ipynb", "command": "echo two words", "pattern": "two", "query": "main",
	"url": "https://nowhere.invalid/", "name": "retry", "question": "Which one?", "code": "true", "action": "list",
	"old_string": "two", "new_string": "2", "new_source": "print(1)", "content": "text", "cell_number": "0",
}

// described is a tool as "toolhost --json tools" prints it.
type described struct {
	Name, Namespace string
	Examples        []string
}

// called is the part of a result that shows whether the tool got its arguments.
type called struct {
	Metadata struct{ Tool string }
	Error    *struct{ Kind, Message string }
}

// TestUsage runs the usage line and every example in the help of each tool, as a command and as a function call. The
// tool must run, and not a program of its name. Its arguments must be valid.
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
	prompt, ok := "", false
	if _, prompt, ok = strings.Cut(run("tools", "--format", "json-prompt"), "{\"tool_calls\""); !ok {
		t.Error("the prompt for models without function calls shows no call")
	}
	prompt, _, _ = strings.Cut("{\"tool_calls\""+prompt, "\n")
	check("read", prompt, run("--json", "run", strings.NewReplacer("TOOL", "read", "PARAMETER", "file_path", "value", "a.txt").Replace(prompt)))
	for _, d := range tools {
		help := run("run", "help "+d.Name)
		if strings.Contains(help, "Not available") {
			t.Errorf("the help shows a parameter that the tool does not have: %s", help)
		}
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

// TestLinesOfModes runs the command lines in the texts for models, in each mode in which an MCP client can have the
// tools. The tool bash gets every line that the instructions and its description quote, the examples of all tools, and
// the lines of their help. No line may be unknown, and none may reach the builtin or program of the shell that has the
// name of a tool.
func TestLinesOfModes(t *testing.T) {
	t.Parallel()
	for mode, args := range map[string][]string{"functions": nil, "single": {"--single"}, "lazy": {"--endpoint", "few"}} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			dir := hosttest.MCPDir(t)
			config := filepath.Join(filepath.Dir(hosttest.KeptState(t, dir+".state")), filepath.Base(dir)+".hcl")
			hosttest.Must(t, os.WriteFile(config, []byte("plugin \"jira\" {\n  path = \""+filepath.Join(hosttest.Bin, "testplugin")+"\"\n  field = \"jira\"\n}\nendpoint \"few\" { mode = \"lazy\" }\n"), 0o600))
			hosttest.Must(t, os.Remove(filepath.Join(dir, "toolhost.hcl")))
			toolhost := func(args ...string) *exec.Cmd {
				return hosttest.Toolhost(t, dir, append([]string{"--config", config, "--on-ask", "allow"}, args...)...)
			}
			listed, err := toolhost("--json", "tools").Output()
			hosttest.Must(t, err)
			var tools []described
			hosttest.Must(t, json.Unmarshal(listed, &tools))
			s := hosttest.Connect(t, hosttest.Eras[1], &mcp.CommandTransport{Command: toolhost(append([]string{"mcp"}, args...)...)}, nil, nil)
			texts := s.InitializeResult().Instructions
			functions, err := s.ListTools(t.Context(), nil)
			hosttest.Must(t, err)
			for _, f := range functions.Tools {
				if f.Name == "bash" || f.Name == "find_tools" {
					texts += "\n" + f.Description
				}
			}
			lines := []string{"help", "help --search read a file", "field:jira --help", "field:jira echo --text x | wc -l", "tool:help", "tool:list | wc -l"}
			for _, quoted := range quotedLine.FindAllStringSubmatch(texts, -1) {
				lines = append(lines, cmp.Or(quoted[1], quoted[2]))
			}
			if len(lines) < 8 {
				t.Errorf("the texts quote no lines: %s", texts)
			}
			for _, d := range tools {
				if d.Namespace == "" {
					lines = append(lines, d.Examples...)
					lines = append(lines, d.Name+" --help", d.Name+" -h", "help "+d.Name, "tool:"+d.Name+" --help", "tool:help "+d.Name)
				}
			}
			for _, line := range lines {
				line = strings.NewReplacer("--parameter value", "--help", "field:NAMESPACE NAME", "field:jira echo", "field:NAMESPACE", "field:jira", "field:NAME COMMAND", "field:jira echo",
					"field:NAME", "field:jira", "NAME", "read", "WORDS", "read").Replace(line)
				text := hosttest.Text(t, hosttest.CallTool(t, s, "bash", map[string]any{"command": line}))
				if wrong := regexp.MustCompile(`command not found|not a valid identifier|unrecognized option|invalid option|GNU bash|read \[-ers\]|(?i)unknown (tool|parameter|command)|Nothing was run`).FindString(text); wrong != "" {
					t.Errorf("%s: %s in %s", line, wrong, text)
				}
			}
		})
	}
}

// quotedLine matches a command line in a text for models.
var quotedLine = regexp.MustCompile("`([^`]+)`|\"((?:help|NAME|tool:|field:)[^\"]*)\"")

var (
	required = regexp.MustCompile(` <(\w+)>`)
	optional = regexp.MustCompile(`(?m)^  --(\w+) \((?:(?:boolean|integer)(?:; default (\w+))?|string)([^)]*)`)
)

// filled returns the command of a usage line, and the arguments of the same call. Optional parameters take their
// defaults and the known values. They take the place of the parameters in brackets.
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
			name, value, choices := m[1], m[2], m[3]
			switch _, given := arguments[name]; {
			case given, strings.Contains(choices, "one of") && !strings.Contains(choices+",", " "+values[name]+","):
			case value != "":
				command += " --" + name + "=" + value
				arguments[name] = json.RawMessage(value)
			case values[name] != "":
				command += " --" + name + " '" + values[name] + "'"
				arguments[name] = values[name]
			}
		}
	}
	return command, arguments
}
