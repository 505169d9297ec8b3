package policy

import (
	"path/filepath"
	"slices"
	"strings"

	"toolhost.dev/host/internal/script"
)

// Builtin is a rule that applies without configuration. Rules of the operator lower it only if they list its name in
// [Rule.Builtins].
type Builtin struct {
	Effect       Effect
	Name, Reason string
	// programs contains the names of the programs that the rule is about.
	programs []string
	match    func(req *Request, c *script.Command) bool
}

// Builtins lists rules for commands that destroy the system or other people's data. Without these rules, the sandbox
// would be the only protection.
var Builtins = []Builtin{
	{Deny, "remove-system", "the command removes the file system, a system directory or the home directory", []string{"rm"}, removesSystem},
	{Deny, "format", "the command formats an existing disk or partition", formatters, formats},
	{Deny, "overwrite-device", "the command writes directly to a disk", []string{"dd", "shred", "tee", "blkdiscard", "cp", "mv", "truncate"}, writesDevice},
	{Deny, "fork-bomb", "the command starts copies of itself without end", nil, func(_ *Request, c *script.Command) bool { return c.Words[0].Text == bombName }},
	{Deny, "system-mode", "the command changes the mode or the owner of the whole system", []string{"chmod", "chown", "chgrp"}, changesSystem},
	{Ask, "remove-workspace", "the command removes the whole workspace", []string{"rm"}, removesWorkspace},
	{Ask, "privilege", "the command runs other commands as another user, but the sandbox allows no privileges", elevators, func(_ *Request, c *script.Command) bool {
		return slices.Contains(elevators, c.Name()) && len(c.Words) > 1 && !c.Remote
	}},
	{Ask, "power", "the command stops the machine", stoppers, func(_ *Request, c *script.Command) bool {
		return slices.Contains(stoppers, filepath.Base(c.Words[0].Text)) && !helps(c)
	}},
}

var (
	elevators  = []string{"sudo", "doas", "pkexec", "su", "runuser"}
	stoppers   = []string{"shutdown", "reboot", "halt", "poweroff"}
	formatters = []string{"mkfs", "mke2fs", "mkswap", "wipefs", "sgdisk", "sfdisk", "fdisk", "parted"}
)

// concerned contains the names of the programs that a built-in rule is about, or that run other programs' work in their
// own process.
var concerned = func() map[string]bool {
	out := map[string]bool{"git": true, "find": true, "busybox": true, "toybox": true, "coreutils": true}
	for i := range Builtins {
		for _, name := range Builtins[i].programs {
			out[name] = true
		}
	}
	return out
}()

// concerns reports whether a built-in rule can apply to a program.
func concerns(x *Execution) bool {
	for _, name := range []string{filepath.Base(x.Path), filepath.Base(x.File), x.invoked()} {
		if concerned[name] || strings.HasPrefix(name, "mkfs.") {
			return true
		}
	}
	return false
}

// bombName is the command name that represents a fork bomb. No real command can have this name.
const bombName = "\x00bomb"

// builtinNames returns the names of the built-in rules.
func builtinNames() []string {
	out := make([]string, len(Builtins))
	for i := range Builtins {
		out[i] = Builtins[i].Name
	}
	return out
}

// builtins returns the built-in rules that match a command.
func builtins(req *Request, c *script.Command) (out []*Builtin) {
	if !c.Words[0].Known() {
		if b := maybeBuiltin(req, c); b != nil {
			out = append(out, b)
		}
		return out
	}
	for i := range Builtins {
		if Builtins[i].match(req, c) {
			out = append(out, &Builtins[i])
		}
	}
	return out
}

// matchBuiltins reports whether one of the named built-in rules matches the part.
func (p *part) matchBuiltins(names []string) script.Match {
	for _, b := range p.builtins {
		if slices.Contains(names, b.Name) {
			if b.match == nil { // the name of the command is unknown
				return script.Maybe
			}
			return script.Yes
		}
	}
	return script.No
}

// floor returns the strictest built-in rule that matches the part and is not lowered.
func (p *part) floor(lowered []string) (out *Builtin) {
	for _, b := range p.builtins {
		if !slices.Contains(lowered, b.Name) && (out == nil || b.Effect == Deny && out.Effect != Deny) {
			out = b
		}
	}
	return out
}

// maybeBuiltin returns a rule for a command with an unknown name. The rule asks for a confirmation if rm with the same
// arguments would remove the system. Otherwise maybeBuiltin returns nil.
func maybeBuiltin(req *Request, c *script.Command) *Builtin {
	guess := *c
	guess.Words = append([]script.Word{{Text: "rm"}}, c.Words[1:]...)
	if !removesSystem(req, &guess) {
		return nil
	}
	return &Builtin{Effect: Ask, Name: "remove-system", Reason: "the command's name is unknown before it runs, and with these arguments rm would remove the system"}
}

func helps(c *script.Command) bool {
	return slices.ContainsFunc(c.Words[1:], func(w script.Word) bool {
		return slices.Contains([]string{"--help", "--version", "-V"}, w.Text)
	})
}

// arguments returns the options and operands of a command.
func arguments(c *script.Command) (short string, long, operands []string) {
	for i, w := range c.Words[1:] {
		switch {
		case w.Text == "--":
			for _, o := range c.Words[i+2:] {
				operands = append(operands, o.Text)
			}
			return short, long, operands
		case strings.HasPrefix(w.Text, "--"):
			long = append(long, w.Text[2:])
		case len(w.Text) > 1 && w.Text[0] == '-':
			short += w.Text[1:]
		default:
			operands = append(operands, w.Text)
		}
	}
	return short, long, operands
}

// isRecursive reports whether the options of a command contain -r, -R, --recursive or an abbreviation of --recursive.
func isRecursive(short string, long []string, letters string) bool {
	return strings.ContainsAny(short, letters) || slices.ContainsFunc(long, func(l string) bool { return script.Abbreviates(l, "recursive") })
}

// systemDirs lists the top-level directories of a system.
var systemDirs = []string{"/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/opt", "/proc", "/root", "/sbin", "/srv", "/sys", "/usr", "/usr/bin", "/usr/lib", "/usr/local", "/var", "/Users", "/System", "/Library", "/Applications"}

// isSystem reports whether an operand names a top-level directory of the system, or all files in such a directory.
func isSystem(c *script.Command, operand string) bool {
	if strings.Contains(operand, script.Unknown) {
		return false
	}
	path := locate(c.Dir, script.Word{Text: operand})
	if c.Dir == "" && !filepath.IsAbs(operand) {
		return false
	}
	path, all := strings.CutSuffix(path, "/*")
	if all && path == "" {
		path = "/"
	}
	if path == "/" || slices.Contains(systemDirs, path) {
		return true
	}
	home := homeDir()
	return home != "" && path == home
}

func removesSystem(req *Request, c *script.Command) bool {
	short, long, operands := arguments(c)
	if c.Name() != "rm" || !isRecursive(short, long, "rR") {
		return false
	}
	return slices.ContainsFunc(operands, func(o string) bool { return isSystem(c, o) && !isWorkspace(req, c, o) })
}

// isWorkspace reports whether an operand names the workspace, or all files in the workspace.
func isWorkspace(req *Request, c *script.Command, operand string) bool {
	if strings.Contains(operand, script.Unknown) || c.Dir == "" && !filepath.IsAbs(operand) || req.Workspace == "" || req.Workspace == "/" || c.Remote {
		return false
	}
	path := locate(c.Dir, script.Word{Text: operand})
	return strings.TrimSuffix(path, "/*") == req.Workspace
}

func removesWorkspace(req *Request, c *script.Command) bool {
	short, long, operands := arguments(c)
	if c.Name() != "rm" || !isRecursive(short, long, "rR") {
		return false
	}
	return slices.ContainsFunc(operands, func(o string) bool { return isWorkspace(req, c, o) })
}

func formats(_ *Request, c *script.Command) bool {
	name := c.Name()
	_, _, operands := arguments(c)
	if !strings.HasPrefix(name, "mkfs.") && !slices.Contains(formatters, name) || helps(c) {
		return false
	}
	return slices.ContainsFunc(operands, isDisk) || name == "mkfs" && len(operands) > 0 && !slices.ContainsFunc(operands, func(o string) bool { return strings.Contains(o, ".") })
}

// isDisk reports whether a path is a block device such as a disk.
func isDisk(path string) bool {
	name, ok := strings.CutPrefix(filepath.Clean(path), "/dev/")
	return ok && slices.ContainsFunc([]string{"sd", "hd", "vd", "xvd", "nvme", "mmcblk", "disk", "rdisk", "md", "dm-", "mapper/", "loop", "mem", "kmem", "root", "block/"}, func(prefix string) bool {
		return strings.HasPrefix(name, prefix)
	})
}

func writesDevice(_ *Request, c *script.Command) bool {
	switch c.Name() {
	case "dd":
		return slices.ContainsFunc(c.Words[1:], func(w script.Word) bool {
			to, ok := strings.CutPrefix(w.Text, "of=")
			return ok && isDisk(to)
		})
	case "shred", "tee", "blkdiscard", "cp", "mv", "truncate":
		_, _, operands := arguments(c)
		if c.Name() == "cp" || c.Name() == "mv" {
			return len(operands) > 1 && isDisk(operands[len(operands)-1])
		}
		return slices.ContainsFunc(operands, isDisk)
	}
	return false
}

func changesSystem(_ *Request, c *script.Command) bool {
	if !slices.Contains([]string{"chmod", "chown", "chgrp"}, c.Name()) {
		return false
	}
	short, long, operands := arguments(c)
	return isRecursive(short, long, "R") && len(operands) > 1 && slices.ContainsFunc(operands[1:], func(o string) bool { return o == "/" || o == "/*" })
}
