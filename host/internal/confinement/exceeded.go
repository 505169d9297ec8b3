package confinement

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/lazyregexp"
	"toolhost.dev/host/internal/state"
	"toolhost.dev/sandbox"
	"toolhost.dev/sandbox/footprint"
)

// exceeded lists the messages that programs print when they reach a limit.
var exceeded = []struct {
	printed *lazyregexp.Regexp
	// limit returns the value of the limit as text. It returns "" if there is no limit.
	limit func(sandbox.Profile) string
	// If the field "always" is true, the message also counts in the output of a successful call, because a shell can
	// succeed although it failed to fork. The output must then contain "fork: ". A search for this text is faster than
	// the regular expression.
	always bool
	// text is the description of the limit, with %s for the value. The field "setting" is the name of the limit in the
	// sandbox block.
	text, setting string
	// hint follows the text. It can be empty.
	hint func(sandbox.Profile) string
}{
	{
		lazyregexp.New(`(?i)(?:can't|cannot|can not|unable to|failed to) (?:fork|start new thread|create (?:a )?(?:new |native )?(?:OS |native )?thread)|pthread_create.*(?:failed|Resource temporarily unavailable)|BlockingIOError: \[Errno 11\]|spawn\S* .*EAGAIN|fork/exec .*resource temporarily unavailable|Cannot fork|newosproc`),
		func(p sandbox.Profile) string { return number(p.Limits.Processes) },
		false, "The processes and threads of the tool are limited to %s together", "processes", nil,
	},
	{
		lazyregexp.New(`(?m)^\S+: (?:line \d+: )?fork: (?:retry: )?Resource temporarily unavailable$`),
		func(p sandbox.Profile) string { return number(p.Limits.Processes) },
		true, "The processes and threads of the tool are limited to %s together", "processes", nil,
	},
	{
		lazyregexp.New(`(?i)Too many open files|\bEMFILE\b`),
		func(p sandbox.Profile) string { return number(p.Limits.Files) },
		false, "The open files of a process are limited to %s", "files",
		func(p sandbox.Profile) string {
			if p.Limits.Raise.Files == 0 {
				return ""
			}
			return fmt.Sprintf(". A command can raise it: ulimit -n %d", p.Limits.Raise.Files)
		},
	},
	{
		lazyregexp.New(`(?i)Cannot allocate memory|\bENOMEM\b|MemoryError|memory exhausted|std::bad_alloc|cannot allocate \d+|out of memory|(?:failed to allocate|can not mmap).*(?:errno: 12|shadow memory)|insufficient memory`),
		func(p sandbox.Profile) string { return size(p.Limits.Memory) },
		false, "The memory of a process is limited to %s", "memory",
		func(p sandbox.Profile) string {
			if !p.Limits.Raise.Memory {
				return ""
			}
			return ". A command can remove it, for a program that reserves memory without using it: ulimit -d unlimited"
		},
	},
	{
		lazyregexp.New(`(?i)File size limit exceeded|File too large|\bEFBIG\b|exit (?:code|status) 153\b`),
		func(p sandbox.Profile) string { return size(p.Limits.FileSize) },
		false, "The size of a file is limited to %s", "file_size",
		func(p sandbox.Profile) string {
			if !p.Limits.Raise.FileSize {
				return ""
			}
			return ". A command can remove it: ulimit -f unlimited"
		},
	},
	{
		lazyregexp.New(`(?i)No space left on device|\bENOSPC\b`),
		func(p sandbox.Profile) string { return size(p.Temporary) },
		false, "If the full device is /var/tmp or /dev/shm: each is in memory and holds at most %s", "temporary",
		func(sandbox.Profile) string { return ". $TMPDIR is on disk" },
	},
	{
		lazyregexp.New(`(?i)CPU time limit exceeded|exit (?:code|status) 152\b`),
		func(p sandbox.Profile) string { return number(p.Limits.CPU) },
		false, "The processor time of a process is limited to %s seconds", "cpu", nil,
	},
}

// exceeded returns messages about the limits that a call reached. It finds them in the printed output of the call. The
// output of a successful call can mention any error, so only messages about a failed fork count there.
func (l *Launcher) exceeded(p *config.Plugin, roots []tool.Root, printed string, failed bool) []string {
	if !failed && !Profile(p).StartProcesses { // such a plugin runs no shell, so its successful calls have no failed forks
		return nil
	}
	var out []string
	forks := strings.Contains(printed, "fork: ")
	for _, e := range exceeded {
		if judged := failed || e.always && forks; !judged || !e.printed.MatchString(printed) {
			continue
		}
		prof := Profile(p) // read the profile only now, because most calls reach no limit
		limit := e.limit(prof)
		if limit == "" {
			continue
		}
		if backend, _, err := l.Choose(p, roots); err != nil || !backend.Abilities().Confines ||
			e.setting == "temporary" && !backend.Abilities().OwnRoot {
			continue
		}
		hint := ""
		if e.hint != nil {
			hint = e.hint(prof)
		}
		out = append(out, fmt.Sprintf(e.text, limit)+hint+". "+l.settingAdvice(p, e.setting))
	}
	return out
}

// settingAdvice returns a text that explains how to change a limit.
func (l *Launcher) settingAdvice(p *config.Plugin, setting string) string {
	return fmt.Sprintf(`To change the limit, the operator sets limits { %s } in the sandbox block of %s`, setting, block(l.cfg, p))
}

// block names a plugin's block in the configuration.
func block(cfg *config.Config, p *config.Plugin) string {
	where := fmt.Sprintf("plugin %q", p.Name)
	if p.Mounted {
		where = fmt.Sprintf("field %q", p.Name)
	}
	if at := cfg.PluginPosition(p.Name); at != "" && !p.Added { // an added plugin has no block with a position: the operator must first add the block
		where += " (" + at + ")"
	}
	return where
}

// overMemory returns a function for the host to call when it killed a process because the plugin used too much memory.
// The function reports the killed process.
func (l *Launcher) overMemory(p *config.Plugin, limit uint64) func(footprint.Killed) {
	return func(k footprint.Killed) {
		now := time.Now()
		text := fmt.Sprintf("The host killed the process %q, because the processes of plugin %s used %s of memory together and the limit is %s. %s",
			k.Name, p.Name, size(k.Used), size(limit), l.settingAdvice(p, "total { memory }"))
		l.parts.Log.Warn("a process of a plugin was killed: its processes use more memory than limits { total { memory } } permits",
			"plugin", p.Name, "process", k.Name, "used", size(k.Used), "limit", size(limit))
		target := fmt.Sprintf("memory %d", k.PID)
		if !l.parts.Denials.add(p.Name, target, text, now) || l.parts.Audit == nil {
			return
		}
		args, err := json.Marshal(map[string]any{"process": k.Name, "bytes": k.Used})
		if err != nil { // cannot happen for these values
			panic(err)
		}
		l.parts.Audit(state.AuditEntry{
			At: now, Tool: "(memory)", Arguments: args, Decision: "deny",
			Rule:    fmt.Sprintf("limits of plugin %q", p.Name),
			Outcome: string(tool.PermissionDenied), Error: text, Plugin: p.Name,
		})
	}
}

func number(n uint64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// size formats a number of bytes in the largest unit in which the number is at least 1. It returns "" for 0.
func size(n uint64) string {
	switch {
	case n == 0:
		return ""
	case n >= 1<<30:
		return fmt.Sprintf("%.3gGiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.3gMiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%d bytes", n)
}
