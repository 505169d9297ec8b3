package habit

import (
	"encoding/json"
	"strings"

	"toolhost.dev/sdk/tool"
)

const endPatch = "*** End Patch"

// run returns the role for a command: [tool.RoleEdit] for a command that only applies a patch, otherwise
// [tool.RoleShell].
func run(c *call) tool.Role {
	argv(c)
	terminal(c)
	restart(c)
	raw := c.args["command"]
	script := strings.TrimSpace(unquoted(raw))
	begin, end := strings.Index(script, "*** Begin Patch"), strings.LastIndex(script, endPatch)
	rest, applies := strings.CutPrefix(script, "apply_patch")
	if !applies || begin < 0 || end < begin {
		return tool.RoleShell
	}
	before, after := rest[:begin-len("apply_patch")], strings.Fields(strings.Trim(script[end+len(endPatch):], "'\""))
	ended := len(after) == 0 || len(after) == 1 && strings.Contains(before, after[0]) // the only word after the patch is the end mark of a heredoc
	if !ended || strings.ContainsAny(before, ";&|$`>(") {
		return tool.RoleShell
	}
	for name := range c.args {
		if name != "command" && name != "cwd" {
			delete(c.args, name) // remove arguments such as a timeout, which a patch does not need
		}
	}
	if _, ok := c.args["cwd"]; ok {
		return tool.RoleShell
	}
	patch := script[begin : end+len(endPatch)]
	if strings.HasPrefix(strings.TrimSpace(rest), "'") {
		patch = strings.ReplaceAll(patch, `'\''`, "'")
	}
	delete(c.args, "command")
	c.set("diff", patch+"\n")
	return tool.RoleEdit
}

// argv converts a command in the form of a word list to a script. A list such as ["bash", "-lc", "make test"] already
// contains a script.
func argv(c *call) {
	raw, ok := c.args["command"]
	if !ok {
		return
	}
	var words []string
	if json.Unmarshal(raw, &words) != nil {
		var text string // some models send the list as a string
		if json.Unmarshal(raw, &text) != nil || !strings.HasPrefix(strings.TrimSpace(text), `["`) ||
			json.Unmarshal([]byte(text), &words) != nil {
			return
		}
	}
	delete(c.args, "command")
	if len(words) == 3 && isShell(words[0]) && (words[1] == "-c" || words[1] == "-lc" || words[1] == "-ic") {
		c.set("command", words[2])
		return
	}
	for i, w := range words {
		words[i] = quote(w)
	}
	c.set("command", strings.Join(words, " "))
}

func isShell(word string) bool {
	name := word[strings.LastIndexByte(word, '/')+1:]
	return name == "bash" || name == "sh" || name == "zsh"
}

// quote quotes a word for a shell if necessary.
func quote(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("-_./=:,@%+", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// terminal converts a request for a terminal. Commands have no terminal, but their standard input can stay open.
func terminal(c *call) {
	if tty, ok := c.truth("tty"); ok && tty {
		c.set("keep_stdin_open", true)
	}
}

// restart refuses a request to restart the shell, because the tool has no permanent shell process.
func restart(c *call) {
	if v, ok := c.truth("restart"); ok && v {
		c.fail("the shell needs no restart: a command that hangs ends with its timeout, and the tool for jobs ends jobs")
	}
}

// stdin converts a call that sends input to a running command. A call with empty input only waits for output.
func stdin(c *call) {
	text, given := c.text("input")
	_, waits := c.args["timeout"]
	switch {
	case given && text == "\x03": // the input is Ctrl-C
		c.drop("timeout")
		c.set("action", "kill")
	case given && text != "":
		c.drop("timeout")
		c.set("action", "write")
		c.set("input", text)
	case waits:
		c.set("action", "wait")
	default:
		c.set("action", "tail")
	}
	id(c)
}

// id converts the number of a job to the name of the job.
func id(c *call) {
	if raw, ok := c.args["id"]; ok {
		delete(c.args, "id")
		c.set("id", unquoted(raw))
	}
}

// output converts a request for the output of a job to an action of the tool job.
func output(c *call) {
	id(c)
	action := "tail"
	if block, ok := c.truth("block"); ok && block {
		action = "wait"
	} else {
		c.drop("timeout")
	}
	if filter, ok := c.text("filter"); ok && filter != "" {
		c.fail("parameter \"filter\" is not supported: pipe the output of the call through grep")
	}
	c.set("action", action)
}

func kill(c *call) {
	id(c)
	c.set("action", "kill")
}

// action unpacks a command that is inside an object together with a timeout and a directory.
func action(c *call) {
	raw, ok := c.take("action")
	if !ok {
		return
	}
	var args Args
	if json.Unmarshal([]byte(unquoted(raw)), &args) != nil {
		c.fail("parameter \"action\" is not an object")
		return
	}
	for from, to := range map[string]string{"command": "command", "working_directory": "cwd", "timeout_ms": "timeout"} {
		if v, ok := args[from]; ok && string(v) != "null" {
			c.set(to, v)
		}
	}
}
