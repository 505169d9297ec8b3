package shell

import (
	"slices"
	"strings"

	"toolhost.dev/plugins/bash/process"
	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/toolrpc"
)

// This list contains environment variables that stop programs from prompting, starting editors and pagers, and drawing
// on a terminal. No person could answer a prompt.
var quiet = []string{
	"TERM=dumb", "COLUMNS=200", "NO_COLOR=1", "CLICOLOR=0", "CI=1",
	"PAGER=cat", "GIT_PAGER=cat", "MANPAGER=cat", "GH_PAGER=cat", "SYSTEMD_PAGER=", "AWS_PAGER=", "LESS=-FRX",
	"EDITOR=false", "VISUAL=false", "GIT_EDITOR=false", "GIT_SEQUENCE_EDITOR=:", "GIT_MERGE_AUTOEDIT=no",
	"GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=/bin/false", "SSH_ASKPASS=/bin/false", "SSH_ASKPASS_REQUIRE=force",
	"SUDO_ASKPASS=/bin/false", "GCM_INTERACTIVE=never",
	"DEBIAN_FRONTEND=noninteractive", "APT_LISTCHANGES_FRONTEND=none", "NEEDRESTART_MODE=a",
	"npm_config_yes=true", "npm_config_progress=false", "npm_config_update_notifier=false", "npm_config_fund=false",
	"PIP_NO_INPUT=1", "PIP_DISABLE_PIP_VERSION_CHECK=1", "PIP_PROGRESS_BAR=off", "PYTHONUNBUFFERED=1",
	"TF_INPUT=0", "TF_IN_AUTOMATION=1", "HOMEBREW_NO_AUTO_UPDATE=1", "CARGO_TERM_PROGRESS_WHEN=never",
}

// This list contains environment variables that only the host and the plugin use, and variables that change how a shell
// starts.
var private = []string{
	toolrpc.Handshake.MagicCookieKey, toolrpc.LifelineEnv, process.MarkEnv, tool.CommandsEnv, tool.CallEnv,
	"BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "BASH_COMPAT", "BASH_XTRACEFD", "POSIXLY_CORRECT", "PROMPT_COMMAND",
	"PWD", "OLDPWD", "SHLVL", "_",
}

// AppendPath appends a directory to the PATH of an environment.
func AppendPath(env []string, dir string) []string {
	for i, e := range env {
		if path, ok := strings.CutPrefix(e, "PATH="); ok && path != "" {
			env[i] = e + ":" + dir
			return env
		}
	}
	return append(env, "PATH="+dir)
}

// This set contains the variables of this process that commands do not inherit.
var notTaken = func() map[string]struct{} {
	names := make(map[string]struct{})
	for _, e := range slices.Concat(quiet, private) {
		name, _, _ := strings.Cut(e, "=")
		names[name] = struct{}{}
	}
	return names
}()

// taken reports whether commands inherit a variable of this process.
func taken(name string) bool {
	_, not := notTaken[name]
	return !not &&
		!strings.HasPrefix(name, "PLUGIN_") && // variables of go-plugin
		!strings.HasPrefix(name, "BASH_FUNC_") // functions of the shell that started the host
}

// Environment returns the environment for commands. It derives the environment from the argument "own", the environment
// of this process.
func Environment(own []string) []string {
	env := make([]string, 0, len(own)+len(quiet)+3) // reserve capacity for variables that are added later
	ssh := "ssh"
	for _, e := range own {
		name, value, ok := strings.Cut(e, "=")
		switch {
		case !ok || !taken(name):
		case name == "GIT_SSH_COMMAND":
			ssh = value
		default:
			env = append(env, e)
		}
	}
	return append(append(env, quiet...), "GIT_SSH_COMMAND="+ssh+" -oBatchMode=yes")
}
