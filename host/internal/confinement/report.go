package confinement

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/sandbox"
)

// Gap is a restriction that the kernel does not enforce.
type Gap struct {
	What string `json:"what"`
	// How describes how the user can make the kernel enforce the restriction.
	How string `json:"how"`
}

// Enforced lists the restrictions that the kernel enforces on a plugin with this profile.
func Enforced(p *sandbox.Profile, k *sandbox.Kernel, b sandbox.Backend) []string {
	can := b.Abilities()
	if !can.Confines {
		return nil
	}
	out := []string{enforcedFiles(p), enforcedProcesses(p, can), enforcedNetwork(p, can), "no new privileges, no capabilities except for files, no core dumps", "system calls: none that mount, trace, load code into the kernel or use io_uring"}
	if p.StartProcesses && k.Gate(b) == nil {
		out = append(out, "programs: each one is recorded and judged when it is executed")
	}
	if can.OwnRoot {
		out = append(out, "a separate root with nothing else, with an empty home directory, and the /tmp of its session")
	}
	if can.OwnRoot && p.WriteRoots && !p.WriteGit {
		out = append(out, "git: the hooks and settings of the roots' repositories cannot be written")
	}
	if can.OwnRoot && p.DeniedPaths && !p.NoRoots {
		out = append(out, "denied paths: cannot be opened, moved or removed")
	}
	if can.OwnRoot && p.WriteRoots {
		out = append(out, "protected paths, and settings of editors and agents: cannot be written, moved or removed")
	}
	if k.ABI >= 6 {
		out = append(out, "no signals to processes outside")
	}
	var limits []string
	for _, l := range []struct {
		name  string
		value uint64
	}{{"memory", p.Limits.Memory}, {"processes", p.Limits.Processes}, {"files", p.Limits.Files},
		{"file_size", p.Limits.FileSize}, {"temporary", p.Temporary}, {"cpu", p.Limits.CPU}} {
		if l.value > 0 {
			limits = append(limits, fmt.Sprintf("%s %d", l.name, l.value))
		}
	}
	if k.NoCgroup == "" {
		for _, l := range []struct {
			name  string
			value float64
		}{{"memory", float64(p.Total.Memory)}, {"processes", float64(p.Total.Processes)}, {"cpus", p.Total.CPUs}} {
			if l.value > 0 {
				limits = append(limits, fmt.Sprintf("%s %.10g together", l.name, l.value))
			}
		}
	}
	if len(limits) > 0 {
		out = append(out, "limits: "+strings.Join(limits, ", "))
	}
	return out
}

func enforcedFiles(p *sandbox.Profile) string {
	text := "files: reads the roots; writes its state directory only"
	switch {
	case p.NoRoots:
		text = "files: writes its state directory only, and reads no root"
	case p.WriteRoots:
		text = "files: reads the roots; writes the writable ones and its state directory"
	}
	if p.StartProcesses && p.NoRoots {
		text += "; reads the system's programs"
	} else if p.StartProcesses {
		text = strings.Replace(text, "the roots;", "the roots and the system's programs;", 1)
	}
	if len(p.Read) > 0 {
		text += "; reads " + strings.Join(p.Read, ", ")
	}
	if len(p.Write) > 0 {
		text += "; writes " + strings.Join(p.Write, ", ")
	}
	return text
}

func enforcedProcesses(p *sandbox.Profile, can sandbox.Abilities) string {
	switch {
	case !p.StartProcesses:
		return "processes: starts none"
	case can.PrivateProcesses:
		return "processes: sees only its own, which all end with the plugin"
	}
	return "processes: reads the memory and environment of only its own"
}

func enforcedNetwork(p *sandbox.Profile, can sandbox.Abilities) string {
	switch {
	case p.Network:
		return "network: allowed"
	case len(p.Hosts) > 0 && can.SingleHosts:
		return "network: by a proxy to " + strings.Join(p.Hosts, ", ") + " only, and a separate localhost"
	case !p.StartProcesses:
		return "network: none, and no connections to Unix sockets"
	case can.OwnLocalhost:
		return "network: none, except a separate localhost"
	}
	return "network: none, not even localhost"
}

// Advice describes the gap in the enforcement of paths.deny if plugins have no private root.
const Advice = "paths.deny is advice: it holds for arguments and words of commands, not for files that the plugin or its programs find"

// Ungated describes the gap that exists without the exec gate.
const Ungated = "the programs that commands execute are neither recorded nor judged"

// Gaps lists the restrictions that the kernel does not enforce on a plugin with this profile. The argument "why" is the
// error from [sandbox.Kernel.Choose].
func Gaps(p *sandbox.Profile, k *sandbox.Kernel, b sandbox.Backend, why error) []Gap {
	var gaps []Gap
	gap := func(missing bool, what, how string) {
		if missing {
			gaps = append(gaps, Gap{what, how})
		}
	}
	can := b.Abilities()
	if !can.Confines {
		how := "set enforce and backend to \"auto\" in the configuration"
		if why != nil {
			how = why.Error()
		}
		return []Gap{{"the kernel enforces nothing; only the host and the SDK check the plugin's access", how}}
	}
	gap(len(p.Hosts) > 0 && !can.SingleHosts, "connections to single hosts are not possible; the plugin has no network", "needs the backend ns")
	gap(p.DeniedPaths && !p.NoRoots && !can.OwnRoot, Advice, "use the backend ns")
	gap(p.WriteRoots && !can.OwnRoot, "existing settings of editors and agents can be written, and programs of commands can write protected paths", "use the backend ns")
	gap(why != nil, "the configured backend is not available", fmt.Sprint(why))
	gap(p.StartProcesses && k.Gate(b) != nil, Ungated, fmt.Sprint(k.Gate(b)))
	if !can.OwnRoot {
		how := "set backend to \"auto\" in the configuration"
		if !k.Namespaces {
			how = "needs user namespaces (" + k.NoNamespaces + "): allow them with sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone or kernel.apparmor_restrict_unprivileged_userns"
			if c := sandbox.FindContainer(); c != nil {
				how = "needs namespaces (" + k.NoNamespaces + ") that the container must permit: " + c.Remedy
			}
		}
		gap(p.StartProcesses || p.WriteRoots || len(p.Write) > 0, "mode, owner and times of the user's files outside of the roots can be changed", how)
		gap(p.StartProcesses, "services on Unix sockets in the file system can be reached", how)
		gap(p.StartProcesses, "a process that leaves its process group can outlive a plugin that is killed", how)
		gap(p.StartProcesses, "/dev/shm is missing, which Python's multiprocessing needs, and commands cannot reach each other over localhost", how)
		gap(p.StartProcesses, "names and command lines of other processes can be read", how)
	}
	const upgrade = "needs Linux %s or later"
	gap(k.ABI == 0, "which files are executed is not restricted", "needs Landlock: Linux 5.13 or later, with landlock in lsm=")
	if k.ABI > 0 && !can.OwnRoot {
		gap(k.ABI < 2, "files cannot be moved between directories", fmt.Sprintf(upgrade, "5.19"))
		gap(k.ABI < 3, "files outside of the roots can be truncated", fmt.Sprintf(upgrade, "6.2"))
		gap(k.ABI < 5, "devices that are open can be controlled", fmt.Sprintf(upgrade, "6.10"))
		gap(k.ABI < 6, "signals can be sent to processes of the user outside of the sandbox", fmt.Sprintf(upgrade, "6.12"))
	}
	gap(p.Network, "every service on this machine's localhost can be reached", "allow only named hosts in the plugin's sandbox block: network = [\"example.org\"]")
	gap(p.StartProcesses && p.Limits.Processes == 0, "the number of processes is not limited", "set limits { processes } in the plugin's sandbox block")
	gap(p.StartProcesses && p.Limits.Processes > 0 && k.NoPids != "", "root can start more processes than limits { processes }: up to 4096 with a process namespace and Linux 6.14, else any number", "start toolhost as another user, or in a cgroup that it may divide ("+k.NoPids+")")
	gap(p.StartProcesses && p.Limits.Memory == 0, "the memory of a process is not limited", "set limits { memory } in the plugin's sandbox block")
	totalGaps(p, k, gap)
	gap(p.StartProcesses, "the disk space written by all processes together is not limited", "run toolhost on a file system with a quota")
	switch {
	case !p.WriteRoots:
	case p.WriteGit:
		gap(true, "a git outside of the sandbox runs hooks and settings that the plugin writes into a root's .git", "remove git = \"read-write\" from the plugin's sandbox block")
	case !can.OwnRoot:
		gap(true, "a git outside of the sandbox runs hooks and settings that the plugin writes into any repository, until the host moves them to the quarantine", "use the backend ns, and run git there after the call")
	default:
		gap(p.StartProcesses, "a git outside of the sandbox runs hooks and settings that commands write into new repositories, until the host moves them to the quarantine", "run git there after the call; with repositories = \"off\" nothing is moved")
	}
	return gaps
}

// lostBy lists the restrictions on a plugin with this profile that the wanted backend would enforce, but the backend b
// does not.
func lostBy(p *sandbox.Profile, k *sandbox.Kernel, wanted, b sandbox.Backend) []string {
	kept := make(map[string]bool)
	for _, g := range Gaps(p, k, wanted, nil) {
		kept[g.What] = true
	}
	var out []string
	for _, g := range Gaps(p, k, b, nil) {
		if !kept[g.What] {
			out = append(out, g.What)
		}
	}
	return out
}

// totalGaps reports the limits on the total usage of the plugin's processes that the kernel cannot enforce.
func totalGaps(p *sandbox.Profile, k *sandbox.Kernel, gap func(missing bool, what, how string)) {
	measured := fmt.Sprintf("memory of all processes together is measured by the host four times a second, and the largest process is killed above %d bytes: for a moment they can use more", p.Resident)
	switch {
	case k.NoCgroup != "":
		gap(p.StartProcesses && p.Resident > 0, measured, k.NoCgroup)
		gap(p.StartProcesses && p.Resident == 0, "memory of all processes together is not limited", "set limits { total { memory } } in the plugin's sandbox block")
		gap(p.StartProcesses || !p.Total.None(), "processor time of all processes together is not limited", k.NoCgroup)
	default:
		gap(p.StartProcesses && p.Total.Memory == 0 && p.Resident > 0, measured, "set limits { total { memory } } in the plugin's sandbox block: a cgroup then limits it")
		gap(p.StartProcesses && p.Total.Memory == 0 && p.Resident == 0, "memory of all processes together is not limited", "set limits { total { memory } } in the plugin's sandbox block")
	}
}

// weaker describes the restrictions that are not enforced on a plugin because this machine lacks the wanted backend. It
// returns "" if the plugin is confined as configured.
func (l *Launcher) weaker(p *config.Plugin, roots []tool.Root) string {
	lost, why := l.lost(p, roots)
	return l.describeLost(why, lost)
}

// lost returns the restrictions that are not enforced on a plugin, and the reason.
func (l *Launcher) lost(p *config.Plugin, roots []tool.Root) (lost []string, why error) {
	if Enforce(l.cfg, p) != "auto" || p.Missing != "" {
		return nil, nil
	}
	wanted, why := l.Kernel().Fallback(l.cfg.Sandbox.Backend)
	if ungated := l.Ungated(p, roots); why == nil && ungated != "" {
		return []string{Ungated}, errors.New(ungated)
	}
	if why == nil && !l.advice(p) {
		return nil, nil
	}
	backend, _, refused := l.Choose(p, roots)
	switch {
	case refused != nil:
		return nil, nil //nolint:nilerr // the plugin does not run
	case why != nil:
		prof := l.Profile(p)
		return lostBy(&prof, l.Kernel(), wanted, backend), why
	case backend.Abilities().OwnRoot:
		return nil, nil
	}
	return []string{Advice}, errors.New("the configuration or the plugin's roots do not permit the backend ns")
}

func (l *Launcher) describeLost(why error, lost []string) string {
	if len(lost) == 0 {
		return ""
	}
	backend, _ := l.Kernel().Choose(l.cfg.Sandbox.Backend)
	return fmt.Sprintf(`The sandbox is weaker than it can be: the backend is %s, because %v. Not enforced: %s. Run toolhost doctor for the remedy, or set enforce = "require" to refuse`,
		backend.Name(), why, strings.Join(lost, "; "))
}

// Problem describes the restrictions that are not enforced, for all plugins of the configuration together. It returns
// "" if all plugins are confined as configured.
func (l *Launcher) Problem(roots []tool.Root) string {
	var why error
	var lost []string
	for i := range l.cfg.Plugins {
		some, w := l.lost(&l.cfg.Plugins[i], roots)
		for _, s := range some {
			if why = w; !slices.Contains(lost, s) {
				lost = append(lost, s)
			}
		}
	}
	return l.describeLost(why, lost)
}
