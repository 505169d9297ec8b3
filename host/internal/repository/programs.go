package repository

import (
	"slices"
	"strings"
)

// reason returns the reason why a setting makes git, or a common extension of git, run a program. It
// returns "" for a harmless setting. The function "outside" must report whether a path in the setting leads out of the
// writable directories.
func reason(s *setting, outside func(path string) bool) string {
	full := s.section + "." + s.key
	switch {
	case s.section == "include" || s.section == "includeif":
		return "it includes another file of settings"
	case s.section == "alias":
		if harmlessAlias(s.value) {
			return ""
		}
		return "the alias can run a program"
	case full == "core.fsmonitor":
		if isBool(s.value) { // a boolean value selects git's own daemon
			return ""
		}
	case s.section == "pager":
		if isBool(s.value) {
			return ""
		}
	case full == "core.worktree":
		if !outside(s.value) {
			return ""
		}
		return "it makes git write files outside of the workspace"
	case s.section == "http" && s.key == "cookiefile":
		return "git can write data from a server to a file"
	case s.section == "tig" && strings.Contains(s.value, "!"):
	case s.section == "protocol":
		if s.key != "allow" || strings.EqualFold(s.value, "never") {
			return ""
		}
		return "it permits transports that run programs"
	case slices.Contains(toolNames, full):
		if !strings.Contains(s.value, "/") {
			return ""
		}
	case full == "sendemail.smtpserver":
		if !strings.HasPrefix(s.value, "/") && !strings.HasPrefix(s.value, "~") {
			return ""
		}
	case strings.Contains(strings.ToLower(s.value+" "+s.subsection), "ext::"):
	case strings.HasPrefix(s.value, "!"):
	case !runsProgram(s, full):
		return ""
	}
	return "git runs a program because of it"
}

// toolNames lists settings that contain the name of a script of git. A path in place of the name runs another script.
var toolNames = []string{"merge.tool", "merge.guitool", "diff.tool", "diff.guitool"}

// programs lists settings that contain a program or a directory of programs.
var programs = []string{
	"core.hookspath", "core.gitproxy", "core.virtualfilesystem", "core.alternaterefscommand", "credential.helper", "diff.external", "init.templatedir",
	"instaweb.httpd", "instaweb.modulepath", "imap.tunnel", "interactive.difffilter", "lfs.standalonetransferagent", "gitflow.path.hooks",
	"secrets.providers",
}

// programKeys lists, by section, keys that contain a program in every subsection.
var programKeys = map[string][]string{
	"browser":     {"path", "cmd"},
	"diff":        {"command", "textconv"},
	"difftool":    {"path", "cmd"},
	"filter":      {"clean", "smudge", "process"},
	"gitflow":     {"hooks"},
	"lfs":         {"path", "args", "clean", "smudge"}, // custom transfer agents and extensions
	"man":         {"path", "cmd"},
	"merge":       {"driver"},
	"mergetool":   {"path", "cmd"},
	"remote":      {"uploadpack", "receivepack", "vcs", "annex-externaltype"},
	"sendemail":   {"smtpserver"},
	"svn-remote":  {"uploadpack"},
	"trailer":     {"command", "cmd"},
	"uploadpack":  {"packobjectshook"},
	"credential":  {"helper"},
	"tar":         {"command"},
	"hook":        {"command"},
	"gpg":         {"program", "defaultkeycommand"},
	"instaweb":    {"browser"},
	"interactive": {"difffilter"},
}

// programSuffixes lists the endings of keys that name programs. Git uses such keys. Programs that store their settings
// with git also use such keys.
var programSuffixes = []string{
	"command", "cmd", "program", "prog", "pager", "editor", "askpass", "helper", "hook", "hookspath", "driver",
	"textconv", "exec",
}

func runsProgram(s *setting, full string) bool {
	if slices.Contains(programs, full) || slices.Contains(programKeys[s.section], s.key) {
		return true
	}
	return slices.ContainsFunc(programSuffixes, func(end string) bool { return strings.HasSuffix(s.key, end) })
}

// isBool reports whether git reads a value as true or false. An empty value is the name of a setting without a value.
func isBool(value string) bool {
	return slices.Contains([]string{"", "true", "false", "yes", "no", "on", "off", "0", "1"}, strings.ToLower(value))
}

// aliased lists commands of git that are harmless in an alias. They run only programs that a setting names.
var aliased = strings.Fields(`status log diff show branch checkout switch commit add restore stash tag reset blame shortlog
	--oneline --graph --all --decorate --short -s -sb -b -v -vv --stat --cached --staged --amend --no-edit -m -a -am -p -n HEAD HEAD~1 -1 --hard --soft --`)

// harmlessAlias reports whether an alias only consists of commands and arguments that run no program.
func harmlessAlias(value string) bool {
	for _, word := range strings.Fields(value) {
		if !slices.Contains(aliased, word) {
			return false
		}
	}
	return true
}
