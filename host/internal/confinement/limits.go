package confinement

import (
	"errors"
	"os"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/sandbox"
	"toolhost.dev/sandbox/cgroup"
	"toolhost.dev/sandbox/confine"
	"toolhost.dev/sandbox/footprint"
)

// These are the default limits of a plugin. A process can raise the defaults of memory, files and file size (see
// docs/adr/0007-sandbox.md).
const (
	defaultMemory    = 8 << 30
	defaultProcesses = 1024
	defaultFiles     = 1024
	mostFiles        = 16384
	defaultFileSize  = 8 << 30
	defaultTemporary = 2 << 30
)

// limit sets the limits of a profile. The operator's values override the defaults.
func limit(p *sandbox.Profile, set *config.Limits) {
	choose := func(value, byDefault uint64) (limit uint64, isDefault bool) {
		switch value {
		case 0:
			return byDefault, true
		case config.Unlimited:
			return 0, false
		}
		return value, false
	}
	l := confine.Limits{CPU: uint64(set.CPU.Seconds())}
	var files bool
	l.Memory, l.Raise.Memory = choose(set.Memory, defaultMemory)
	l.FileSize, l.Raise.FileSize = choose(set.FileSize, defaultFileSize)
	l.Processes, _ = choose(set.Processes, defaultProcesses)
	if l.Files, files = choose(set.Files, defaultFiles); files {
		l.Raise.Files = mostFiles
	}
	p.Limits = l
	p.Temporary, _ = choose(set.Temporary, defaultTemporary)
	p.Total = cgroup.Limits(set.Total)
	if p.Total.Memory == config.Unlimited {
		p.Total.Memory = 0
	}
	if p.StartProcesses {
		p.Resident, _ = choose(set.Total.Memory, footprint.Machine()/4*3)
	}
}

// findPids finds the cgroup that limits the number of processes of root. Other limits do not apply to root.
func (l *Launcher) findPids() {
	if os.Getuid() != 0 {
		return
	}
	var err error
	if l.pids, err = cgroup.FindPids("/sys/fs/cgroup", "/proc/self"); err != nil && l.groups == nil {
		l.kernel.NoPids = err.Error()
	}
}

// groups contains the cgroups that limit all processes of a plugin together.
type groups struct {
	total *cgroup.Group     // nil without a limit or without cgroups of version 2
	pids  *cgroup.PidsGroup // nil if the cgroup is not needed or not available
}

// remove removes the groups together with their processes.
func (g groups) remove() error {
	var errs []error
	if g.total != nil {
		errs = append(errs, g.total.Remove())
	}
	if g.pids != nil {
		errs = append(errs, g.pids.Remove())
	}
	return errors.Join(errs...)
}

// limit returns the cgroups for a plugin's processes. If cgroups are unavailable but not required, the result is empty.
func (l *Launcher) limit(p *config.Plugin, prof *sandbox.Profile) (out groups, err error) {
	l.Kernel()
	total := prof.Total
	if n := prof.Limits.Processes; n > 0 && os.Getuid() == 0 && l.pids == nil &&
		(total.Processes == 0 || n < total.Processes) {
		total.Processes = n
	}
	if l.pids != nil && prof.Limits.Processes > 0 {
		if out.pids, err = l.pids.Make(prof.Limits.Processes); err != nil {
			l.parts.Log.Warn("a plugin runs without a cgroup that limits the number of its processes", "plugin", p.Name, "why", err)
		}
	}
	if l.groups == nil || total.None() {
		return out, nil
	}
	out.total, err = l.groups.Make(p.Name, total)
	switch {
	case err == nil:
		return out, nil
	case Enforce(l.cfg, p) == "require" && !prof.Total.None():
		return groups{}, errors.Join(err, out.remove())
	}
	l.parts.Log.Warn("a plugin runs without limits for the total resources of its processes", "plugin", p.Name, "why", err)
	return out, nil
}
