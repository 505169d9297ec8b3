package conformance_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/tooltest/conformance"
)

var broken string

func TestMain(m *testing.M) {
	switch os.Getenv(serveGreeter) {
	case "":
	case "loud":
		serveLoud()
		return
	default:
		serve()
		return
	}
	dir, err := os.MkdirTemp("", "broken")
	if err != nil {
		panic(err)
	}
	broken = filepath.Join(dir, "broken")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", broken, "./internal/broken")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		panic(string(out))
	}
	flag.Parse()
	_ = flag.Set("test.parallel", "8") // run many tests at once, because tests mostly wait
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// serveLoud serves a plugin whose tool prints more to standard error than a pipe holds.
func serveLoud() {
	sdk.Serve(sdk.Plugin{Name: "loud", Version: "1.0.0", Tools: []sdk.Tool{
		sdk.NewTool(sdk.Definition{Name: "shout", Description: "Print a lot.", Traits: sdk.Traits{ReadOnly: true}},
			func(context.Context, *sdk.Call, struct{}) (*sdk.Result, error) {
				_, err := os.Stderr.WriteString(strings.Repeat("a line of the log\n", 1<<16))
				return sdk.Text("printed"), err
			}),
	}})
}

// TestLoudPlugin checks that the output of a plugin is read to its end, as a host does.
func TestLoudPlugin(t *testing.T) {
	t.Parallel()
	r, err := conformance.Run(t.Context(), conformance.Options{Binary: greeter, Env: []string{serveGreeter + "=loud"}})
	if err != nil || !r.Passed {
		t.Errorf("%v: %+v", err, r)
	}
}

const cases = `
# what cannot be made up
{"config": {"limit": 5}}
{"bad_config": {"limit": -1}}
{"tool": "nap", "arguments": {"seconds": 0}}
{"tool": "nap", "arguments": {"seconds": 60}, "long": true, "repeat": true}
{"tool": "nap", "arguments": {"seconds": -1}, "error": "invalid_arguments"}
`

func run(t *testing.T, mode string) *conformance.Report {
	t.Helper()
	c, err := conformance.ReadCases(strings.NewReader(cases))
	if err != nil {
		t.Fatal(err)
	}
	r, err := conformance.Run(t.Context(), conformance.Options{Binary: broken, Args: []string{mode}, Cases: c, Bind: bind})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestFaults runs the checks on a plugin with one fault at a time. Exactly one check must find each fault.
func TestFaults(t *testing.T) {
	t.Parallel()
	caught := map[string]string{
		"mute": "handshake", "exit": "handshake", "future": "handshake", "chatty": "stdout", "tcp": "socket", "elsewhere": "socket",
		"cookie": "by-hand", "fickle": "describe", "pid": "describe", "nameless": "definitions", "twice": "definitions", "versionless": "definitions",
		"role": "definitions", "program": "definitions", "keeps": "definitions",
		"choosy": "configure", "config-panic": "bad-config", "config-status": "bad-config", "lenient": "bad-config", "silent": "bad-config",
		"no-health": "health", "healthless": "health", "all-healthy": "health",
		"resultless": "calls", "failing-status": "calls", "late-progress": "messages", "two-results": "messages", "endless": "messages", "status": "messages", "ask-0": "messages",
		"bad-data": "results", "no-json": "results", "kindless": "results", "relative": "results", "bad-example": "examples", "dead-example": "examples",
		"trusting": "bad-arguments", "no-such-method": "unknown-tool", "strict": "unknown-fields", "strict-stream": "unknown-fields",
		"stubborn": "cancel", "timeless": "deadline", "fragile": "reset", "small": "large", "lonely": "concurrent",
		"shared-mixed": "shared-stream", "shared-strict": "shared-stream", "shared-short": "shared-stream", "undrained": "drain", "deaf-drain": "drain",
		"stateful": "results", "imageless": "results", "leaky": "results", "blocking": "concurrent", "demanding": "configure",
		"orphan": "lifeline", "flock": "beside", "lockfile": "restart", "": "",
	}
	causes := map[string]string{ // what the message of the check must contain
		"demanding": `{"config": {"key": …}}`, "choosy": `the configuration was {"limit":5}`, "leaky": "the title contains the secret BROKEN_TOKEN",
		"blocking": "blocks the event loop", "stateful": "read_only", "imageless": "image/png",
		"role": `the role "read" needs the parameter "file_path"`, "program": "the first operand of the program", "keeps": `the attribute "limit" is no string`, "resultless": "without a result",
	}
	for mode, want := range caught {
		t.Run("mode="+mode, func(t *testing.T) {
			t.Parallel()
			r := run(t, mode)
			var found, skipped []string
			var text strings.Builder
			for _, c := range r.Checks {
				switch c.Status {
				case conformance.Failed, conformance.Warned:
					found = append(found, c.ID)
					if c.Fix == "" || len(c.Problems) == 0 || c.Section == "" {
						t.Errorf("%s does not say what to do: %+v", c.ID, c)
					}
					text.WriteString(strings.Join(c.Problems, "\n"))
					t.Logf("%s: %s", c.ID, strings.Join(c.Problems, "\n"))
				case conformance.Skipped:
					skipped = append(skipped, c.ID)
				}
			}
			if !strings.Contains(text.String(), causes[mode]) {
				t.Errorf("no %q in %s", causes[mode], &text)
			}
			if strings.Join(found, " ") != want {
				t.Errorf("found by %q, want %q", found, want)
			}
			if starts := !slices.Contains([]string{"mute", "exit", "tcp", "elsewhere", "choosy", "demanding"}, mode); starts {
				if shared := strings.HasPrefix(mode, "shared"); shared != (len(skipped) == 0) || len(skipped) > 1 {
					t.Errorf("skipped: %q", skipped)
				}
			}
			if warned := mode == "cookie"; r.Passed != (want == "" || warned) {
				t.Errorf("passed is %v", r.Passed)
			}
		})
	}
}

// bind parses the command line "echo WORD".
func bind(_ tool.Definition, example string) (map[string]json.RawMessage, bool, error) {
	words := strings.SplitN(example, " ", 2)
	if strings.Contains(words[1], "--") {
		return nil, true, errors.New("there is no such flag")
	}
	text, _ := json.Marshal(strings.Trim(words[1], "'"))
	return map[string]json.RawMessage{"text": text}, true, nil
}

// TestLimit checks a plugin that never answers a call, not even after a cancel. The checks must end at their time limit
// and report the cause.
func TestLimit(t *testing.T) {
	t.Parallel()
	c, err := conformance.ReadCases(strings.NewReader(cases))
	if err != nil {
		t.Fatal(err)
	}
	r, err := conformance.Run(t.Context(), conformance.Options{Binary: broken, Args: []string{"stuck"}, Cases: c, Patience: 3 * time.Second, Limit: 12 * time.Second})
	if err != nil || r.Passed {
		t.Fatal(r, err)
	}
	last := r.Checks[len(r.Checks)-1]
	if last.Status != conformance.Failed || !strings.Contains(strings.Join(last.Problems, " "), "not checked, because earlier checks took 12s") {
		t.Errorf("%+v", last)
	}
}

func TestWithoutCases(t *testing.T) {
	t.Parallel()
	r, err := conformance.Run(t.Context(), conformance.Options{Binary: broken})
	if err != nil || !r.Passed {
		t.Fatalf("%v %+v", err, r)
	}
	if len(r.LeftOut) != 1 || !strings.Contains(r.LeftOut[0], "nap") || !strings.Contains(r.LeftOut[0], "--calls") {
		t.Errorf("%q", r.LeftOut)
	}
}

func TestCannotRun(t *testing.T) {
	t.Parallel()
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"/no/such/plugin": "no plugin to test", t.TempDir(): "directory", plain: "chmod"} {
		if _, err := conformance.Run(t.Context(), conformance.Options{Binary: path}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestReadCases(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"tool":"x","argument":{}}`:          "line 1",
		"\n{}":                                "line 2: the case needs exactly one of",
		`{"tool":"x","config":{}}`:            "the case needs exactly one of",
		"{\"config\":{}}\n{\"config\":{}}":    "second configuration",
		`{"tool":"x"} {"tool":"y"}`:           "more than one",
		`not JSON`:                            "line 1",
		`{"tool":"x","arguments":{"a":[1]}} `: "",
	} {
		_, err := conformance.ReadCases(strings.NewReader(text))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestSections checks that docs/protocol.md contains the sections to which reports refer.
func TestSections(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../../../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range run(t, "").Checks {
		if !strings.Contains(string(b), "# "+c.Section+"\n") {
			t.Errorf("%s: docs/protocol.md has no section %q", c.ID, c.Section)
		}
	}
}
