package calls

import (
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"toolhost.dev/sdk/tooltest/need"

	"toolhost.dev/host/cmd/test/hosttest"
)

// suggestion is a call that fails with a message about the configuration. Once the configuration has what the message
// suggests, the call does what the message promises.
type suggestion struct {
	config string
	// args is the command line of toolhost. The last word is often a call. Directories are replaced; see [groundOf].
	args []string
	// values replaces what stands for a value in the message, such as "…".
	values map[string]string
	// refused and then match the output before and after the change. An empty "then" means that the call succeeds.
	refused, then string
}

// run returns the arguments for a call.
func run(call string) []string { return []string{"run", call} }

// suggestions has a case for each form in which a message suggests a change of the configuration. TestSuggestedBlocks
// of package config checks that the other texts of these forms are valid.
var suggestions = map[string]suggestion{
	"disabled tool":                  {config: "tool \"read\" {\n  enabled = false\n}", args: run("read a.txt"), refused: "is disabled"},
	"timeout":                        {config: "tool \"bash\" {\n  timeout = \"300ms\"\n}", args: run("sleep 0.6; echo one"), values: map[string]string{"…": "60s"}, refused: "took longer"},
	"plugin with the network":        {args: run("web_fetch --url https://nowhere.invalid/"), refused: "web_fetch is off", then: "nowhere.invalid"},
	"root to read":                   {args: run("read OUT/note.txt"), refused: "add root", then: "one"},
	"root to write":                  {args: run("write --file_path OUT/new.txt --content two"), refused: "add root"},
	"allow rule for a command":       {config: "permissions {\n  default = \"ask\"\n}", args: run("echo one | wc -l"), refused: "add an allow rule with", then: "1"},
	"allow rule for an edit":         {config: "permissions {\n  default = \"ask\"\n}", args: run("write --file_path b.txt --content two"), refused: "add an allow rule with"},
	"allow rule for a tool":          {config: "permissions {\n  default = \"ask\"\n}", args: run("snippet_list"), refused: "add an allow rule with"},
	"allow rule of careful":          {config: "permissions {\n  policy = \"careful\"\n}", args: run("git push origin main"), refused: "add an allow rule with command", then: "src refspec main"},
	"broad workspace":                {args: []string{"--workspace", "HOME", "run", "echo one"}, refused: "allow_root"},
	"list of programs":               {config: "permissions {\n  programs {\n    allow = [\"git *\"]\n  }\n}", args: run("wc a.txt"), refused: `add mode = "listed"`, then: "not listed|listed programs"},
	"plugin of a hook":               {config: "bundled = false\nplugin \"bash\" {}\nhook \"h\" {\n  on = [\"before_call\"]\n  plugin = \"read\"\n}", args: []string{"config", "validate"}, refused: `Add a block plugin "read"`, then: "is valid"},
	"settings of agents":             {args: run("echo {} > .vscode/settings.json"), refused: "adds writable = "},
	"git settings":                   {args: run("git config core.pager less"), refused: `git = "read-write"`},
	"git directory elsewhere":        {args: []string{"--workspace", "W/linked", "run", "git commit -q --allow-empty -m two && git log --format=%s"}, refused: "adds this line", then: "two"},
	"path to write":                  {config: "plugin \"bash\" {\n  sandbox {\n    read = [\"OUT\"]\n  }\n}", args: run("echo two > OUT/new.txt"), refused: "sets write = "},
	"path of the home directory":     {args: run("cat HOME/note.txt"), refused: "sets read = ", then: "one"},
	"path in /tmp":                   {args: run("cat OUT/note.txt"), refused: "of its own.*sets read = ", then: "one"},
	"path for a plugin with a block": {config: "plugin \"bash\" {\n  sandbox {\n    network = true\n  }\n}", args: run("cat OUT/note.txt"), refused: "sets read = ", then: "one"},
	"no network":                     {args: run("curl -sS --max-time 20 http://ADDRESS/"), refused: "The sandbox has no network.*sets network = ", then: "hello"},
	"network for a raw program":      {args: run("getent hosts nowhere.invalid; curl -sS --max-time 20 http://ADDRESS/"), refused: "sets network = true", then: "hello"},
	"other host":                     {config: "plugin \"bash\" {\n  sandbox {\n    network = [\"example.invalid\"]\n  }\n}", args: run("curl -fsS --max-time 20 http://ADDRESS/"), refused: "adds .* to the list network", then: "hello"},
	"localhost without a proxy":      {config: "plugin \"bash\" {\n  sandbox {\n    network = [\"LOCAL\"]\n  }\n}", args: run("curl -fsS --max-time 20 http://LOCAL/"), refused: "sets network = true", then: "hello"},
	"processes":                      {config: "plugin \"bash\" {\n  sandbox {\n    limits { processes = 12 }\n  }\n}", args: run("for i in $(seq 20); do sleep 5 & done; kill $(jobs -p); echo one"), values: map[string]string{"processes": "processes = 200"}, refused: "limits { processes }", then: "one"},
	"open files":                     {config: "plugin \"bash\" {\n  sandbox {\n    limits { files = 256 }\n  }\n}", args: run("for i in $(seq 300); do exec {f}< a.txt || exit 1; done; echo one"), values: map[string]string{"files": "files = 1000"}, refused: "limits { files }", then: "one"},
	"size of files":                  {config: "plugin \"bash\" {\n  sandbox {\n    limits { file_size = \"1MiB\" }\n  }\n}", args: run("head -c 2000000 /dev/zero > big"), values: map[string]string{"file_size": `file_size = "4MiB"`}, refused: "limits { file_size }"},
	"memory":                         {config: "plugin \"bash\" {\n  sandbox {\n    limits { memory = \"256MiB\" }\n  }\n}", args: run("head -c 600000000 /dev/zero | tail > /dev/null && echo one"), values: map[string]string{"memory": `memory = "3GiB"`}, refused: "limits { memory }", then: "one"},
	"temporary files":                {config: "plugin \"bash\" {\n  sandbox {\n    limits { temporary = \"1MiB\" }\n  }\n}", args: run("head -c 3000000 /dev/zero > /var/tmp/big"), values: map[string]string{"temporary": `temporary = "8MiB"`}, refused: "limits { temporary }"},
	"processor time":                 {config: "plugin \"bash\" {\n  sandbox {\n    limits { cpu = \"1s\" }\n  }\n}", args: run("until read -ra s < /proc/$$/stat; [ $((s[13]+s[14])) -gt 150 ]; do :; done; echo one"), values: map[string]string{"cpu": `cpu = "60s"`}, refused: "limits { cpu }", then: "one"},
}

// TestSuggestedSettings follows the messages that suggest a change of the configuration.
func TestSuggestedSettings(t *testing.T) {
	t.Parallel()
	residents := make([]*hosttest.Resident, 4)
	for i := range residents {
		residents[i] = hosttest.NewResident(t)
	}
	for i, name := range slices.Sorted(maps.Keys(suggestions)) {
		tc, toolhost := suggestions[name], residents[i%len(residents)]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := groundOf(t, strings.Contains(strings.Join(tc.args, " "), "ADDRESS"))
			text := p.Replace(tc.config)
			call := func() (string, int) {
				file := filepath.Join(p.dir, "host.hcl")
				hosttest.Must(t, os.WriteFile(file, []byte(text), 0o600))
				args := append([]string{"--config", file, "--state", p.dir + ".state", "--on-ask", "deny"}, tc.args...)
				for i := range args {
					args[i] = p.Replace(args[i])
				}
				out, err, status := toolhost.Run(t, filepath.Join(p.dir, "W"), []string{"HOME=" + filepath.Join(p.dir, "home"), "XDG_RUNTIME_DIR=", "XDG_CONFIG_HOME="}, args...)
				return out + err, status
			}
			out, _ := call()
			if !regexp.MustCompile("(?s)" + tc.refused).MatchString(out) {
				t.Fatalf("the message is %q, want %q", out, tc.refused)
			}
			text = follow(t, text, out, tc.values)
			again, status := call()
			if !regexp.MustCompile("(?s)"+tc.then).MatchString(again) || (tc.then == "" || tc.then == "one") && status != 0 || regexp.MustCompile("(?s)"+tc.refused).MatchString(again) {
				t.Errorf("%s\nwith\n%s\n%d %s", out, text, status, again)
			}
		})
	}
}

// ground is the directories and servers of a case.
type ground struct {
	dir string
	*strings.Replacer
}

// groundOf makes the directories of a case: the workspace W, the home directory HOME, a directory OUT outside of both,
// and the worktree W/linked, whose git directory is in HOME. ADDRESS and LOCAL are a server on this machine, at an
// address of the machine and at localhost. A case that does not name ADDRESS also runs on a machine that has only
// localhost.
func groundOf(t *testing.T, addressed bool) ground {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	hosttest.Must(t, err)
	for _, name := range []string{"W", "home", "out"} {
		hosttest.Must(t, os.Mkdir(filepath.Join(dir, name), 0o700))
	}
	for _, name := range []string{"W/a.txt", "home/note.txt", "out/note.txt"} {
		hosttest.Must(t, os.WriteFile(filepath.Join(dir, name), []byte("one\n"), 0o600))
	}
	git := func(args ...string) {
		c := exec.Command("git", append([]string{"-c", "user.name=n", "-c", "user.email=n@example.org", "-C", filepath.Join(dir, "W")}, args...)...)
		c.Env = append(os.Environ(), "HOME="+filepath.Join(dir, "home"))
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v %s", args, err, out)
		}
	}
	main := filepath.Join(dir, "home", "main")
	hosttest.Must(t, os.WriteFile(filepath.Join(dir, "home", ".gitconfig"), []byte("[user]\nname = n\nemail = n@example.org\n"), 0o600))
	git("init", "-q")
	hosttest.Must(t, os.Mkdir(filepath.Join(dir, "W", ".vscode"), 0o700))
	hosttest.Must(t, os.WriteFile(filepath.Join(dir, "W", ".vscode", "settings.json"), []byte("{}"), 0o600))
	git("init", "-q", main)
	git("-C", main, "commit", "-q", "--allow-empty", "-m", "one")
	git("-C", main, "worktree", "add", "-q", "-b", "linked", filepath.Join(dir, "W", "linked"))
	l, err := net.Listen("tcp", "0.0.0.0:0")
	hosttest.Must(t, err)
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) })}}
	s.Start()
	t.Cleanup(s.Close)
	_, port, err := net.SplitHostPort(l.Addr().String())
	hosttest.Must(t, err)
	at := "localhost"
	if addressed {
		at = address(t)
	}
	return ground{dir, strings.NewReplacer("OUT", filepath.Join(dir, "out"), "HOME", filepath.Join(dir, "home"), "W/", filepath.Join(dir, "W")+"/", "ADDRESS", net.JoinHostPort(at, port), "LOCAL", "localhost:"+port)}
}

// address returns an address of this machine that is no loopback address.
func address(t *testing.T) string {
	all, err := net.InterfaceAddrs()
	hosttest.Must(t, err)
	for _, a := range all {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil && !ip.IP.IsLoopback() && !ip.IP.IsLinkLocalUnicast() {
			return ip.IP.String()
		}
	}
	need.Missing(t, "this machine has no address but those of localhost")
	return ""
}

// forms are the forms in which a message suggests a change: the blocks, the outermost first, and the line in the
// innermost one. With "longer", the list of the configuration gets a further element.
var forms = []struct {
	message *regexp.Regexp
	blocks  []string
	line    string
	longer  bool
}{
	{regexp.MustCompile(`sets ([a-z_]+ = (?:\[[^\]]*\]|"[^"]*"|true)|limits \{ .*? \}) in the sandbox block of ((?:plugin|field) "\w+")`), []string{"$2", "sandbox"}, "$1", false},
	{regexp.MustCompile(`adds ("[^"]*") to the list (network) in the sandbox block of ((?:plugin|field) "\w+")`), []string{"$3", "sandbox"}, "$2 = [$1]", true},
	{regexp.MustCompile(`adds this line to the sandbox block: (root "[^"]*" \{[^}]*\})`), []string{"sandbox"}, "$1", false},
	{regexp.MustCompile(`add (root "[^"]*" \{[^}]*\}) to the sandbox block`), []string{"sandbox"}, "$1", false},
	{regexp.MustCompile(`add an allow rule with ([a-z]+ = \[.*?\]) and ([a-z]+ = \[.*?\]) to the permissions`), []string{"permissions", `allow "suggested"`}, "$1\n$2", false},
	{regexp.MustCompile(`add an allow rule with ([a-z]+ = \[.*?\]) to the permissions`), []string{"permissions", `allow "suggested"`}, "$1", false},
	{regexp.MustCompile(`adds (writable = \[[^\]]*\]) to the paths block inside the permissions block`), []string{"permissions", "paths"}, "$1", false},
	{regexp.MustCompile(`programs \{ allow \}.* add (mode = "listed")`), []string{"permissions", "programs"}, "$1", false},
	{regexp.MustCompile(`Add a block (plugin "\w+")`), []string{"$1"}, "", false},
	{regexp.MustCompile(`(plugin "\w+") \{\n\s*(\w+ \{[^}]*\})\n\}`), []string{"$1"}, "$2", false},
	{regexp.MustCompile(`((?:tool|plugin|sandbox)(?: "\w+")?) \{ ([^{}]*) \}`), []string{"$1"}, "$2", false},
}

// follow returns a configuration with the change that a message suggests.
func follow(t *testing.T, config, message string, values map[string]string) string {
	t.Helper()
	for _, f := range forms {
		m := f.message.FindStringSubmatchIndex(message)
		if m == nil {
			continue
		}
		expand := func(text string) string { return string(f.message.ExpandString(nil, text, message, m)) }
		line := expand(f.line)
		for from, to := range values {
			line = strings.Replace(line, from, to, 1)
		}
		lines := strings.Split(strings.TrimSuffix(config, "\n"), "\n")
		at := 0
		for _, b := range f.blocks {
			header := expand(b) + " {"
			i := slices.IndexFunc(lines[at:], func(l string) bool { return strings.TrimSpace(l) == header })
			if i < 0 {
				i = 0
				lines = slices.Insert(lines, at, header, "}")
			}
			at += i + 1
		}
		setting, value, _ := strings.Cut(line, " = ")
		i := slices.IndexFunc(lines[at:], func(l string) bool {
			return strings.HasPrefix(strings.TrimSpace(l), setting+" = ") || strings.HasPrefix(line, "limits {") && strings.Contains(l, "limits {")
		})
		switch {
		case i < 0:
			lines = slices.Insert(lines, at, line)
		case f.longer:
			lines[at+i] = strings.TrimSuffix(lines[at+i], "]") + ", " + strings.TrimPrefix(value, "[")
		default:
			lines[at+i] = line
		}
		return strings.Join(lines, "\n")
	}
	t.Fatalf("the message suggests no change: %s", message)
	return ""
}
