package sandbox

import (
	"fmt"
	"strings"
)

// Gap is a restriction that the kernel does not enforce.
type Gap struct {
	What string `json:"what"`
	// How describes how the user can get the restriction enforced.
	How string `json:"how"`
}

// Enforced lists the restrictions that the kernel enforces on a plugin with this profile.
func (p Profile) Enforced(k *Kernel, b Backend) []string {
	can := b.Abilities()
	if !can.Confines {
		return nil
	}
	out := []string{p.files(), p.processes(can), p.network(can), "no privileges gained, no capabilities but over files, no core dumps", "system calls: none that mount, trace, load code into the kernel or use io_uring"}
	if can.OwnRoot {
		out = append(out, "a root of its own that holds nothing else, with an empty /tmp and home directory")
	}
	if can.OwnRoot && p.WriteRoots && !p.WriteGit {
		out = append(out, "git: the hooks and settings of the roots' repositories cannot be written")
	}
	if k.ABI >= 6 {
		out = append(out, "no signals to processes outside")
	}
	var limits []string
	for _, l := range []struct {
		name  string
		value uint64
	}{{"memory", p.Limits.Memory}, {"processes", p.Limits.Processes}, {"files", p.Limits.Files}, {"file_size", p.Limits.FileSize}, {"temporary", p.Temporary}, {"cpu", p.Limits.CPU}} {
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

func (p Profile) files() string {
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

func (p Profile) processes(can Abilities) string {
	switch {
	case !p.StartProcesses:
		return "processes: starts none"
	case can.PrivateProcesses:
		return "processes: sees its own only, and all end with it"
	}
	return "processes: reads the memory and environment of its own only"
}

func (p Profile) network(can Abilities) string {
	switch {
	case p.Network:
		return "network: allowed"
	case len(p.Hosts) > 0 && can.SingleHosts:
		return "network: by a proxy to " + strings.Join(p.Hosts, ", ") + " only, and a localhost of its own"
	case !p.StartProcesses:
		return "network: none, and no connections to Unix sockets"
	case can.OwnLocalhost:
		return "network: none, but a localhost of its own"
	}
	return "network: none, not even localhost"
}

// Gaps lists the restrictions that the kernel does not enforce on a plugin with this profile. The argument why is the
// error that [Kernel.Choose] returned with the backend.
func (p Profile) Gaps(k *Kernel, b Backend, why error) []Gap {
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
		return []Gap{{"the kernel enforces nothing: what a plugin may do is checked by the host and the SDK only", how}}
	}
	gap(len(p.Hosts) > 0 && !can.SingleHosts, "single hosts cannot be let through: there is no network at all", "needs the backend ns")
	gap(why != nil, "the wanted backend is not there", fmt.Sprint(why))
	if !can.OwnRoot {
		how := "set backend to \"auto\" in the configuration"
		if !k.Namespaces {
			how = "needs user namespaces (" + k.NoNamespaces + "): allow them with sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone or kernel.apparmor_restrict_unprivileged_userns, or in the container's profile"
		}
		gap(p.StartProcesses || p.WriteRoots || len(p.Write) > 0, "mode, owner and times of the user's files outside of the roots can be changed", how)
		gap(p.StartProcesses, "services that listen on a Unix socket with a path can be reached", how)
		gap(p.StartProcesses, "a process that leaves its process group can outlive a plugin that is killed", how)
		gap(p.StartProcesses, "there is no /dev/shm, which multiprocessing in Python needs, and commands cannot talk to each other over localhost", how)
		gap(p.StartProcesses, "names and command lines of other processes can be read", how)
	}
	const upgrade = "needs Linux %s or later"
	gap(k.ABI == 0, "which files are executed is not restricted", "needs Landlock: Linux 5.13 or later, with landlock in lsm=")
	if k.ABI > 0 && !can.OwnRoot {
		gap(k.ABI < 2, "files cannot be moved between directories", fmt.Sprintf(upgrade, "5.19"))
		gap(k.ABI < 3, "files outside of the roots can be truncated", fmt.Sprintf(upgrade, "6.2"))
		gap(k.ABI < 5, "devices that are open can be controlled", fmt.Sprintf(upgrade, "6.10"))
		gap(k.ABI < 6, "processes of the user outside can be sent signals", fmt.Sprintf(upgrade, "6.12"))
	}
	gap(p.Network, "with a network every service of this machine's localhost can be reached", "name the hosts that it may reach in its sandbox block instead: network = [\"example.org\"]")
	gap(p.StartProcesses && p.Limits.Processes == 0, "the number of processes is not limited", "set limits { processes } in its sandbox block")
	gap(p.StartProcesses && p.Limits.Processes > 0 && k.NoPids != "", "root can start more processes than limits { processes }: up to 4096 with a process namespace and Linux 6.14, else any number", "start toolhost as another user, or in a cgroup that it may divide ("+k.NoPids+")")
	gap(p.StartProcesses && p.Limits.Memory == 0, "the memory of a process is not limited", "set limits { memory } in its sandbox block")
	p.totalGaps(k, gap)
	gap(p.StartProcesses, "what all processes together write to disk is not limited", "run toolhost on a file system with a quota")
	switch {
	case !p.WriteRoots:
	case p.WriteGit:
		gap(true, "hooks and settings written into a root's .git are run by a git outside", "leave git = \"read-write\" out of its sandbox block")
	case !can.OwnRoot:
		gap(true, "hooks and settings written into a root's .git are run by a git outside", "needs the backend ns; else do not run git there unconfined without looking at .git/hooks and .git/config")
	default:
		gap(p.StartProcesses, "repositories that commands make have hooks and settings of their making, until the plugin starts again", "do not run git there unconfined without looking at .git/hooks and .git/config")
	}
	return gaps
}

// Lost lists the restrictions that the wanted backend would enforce on a plugin with this profile and the backend b does
// not.
func (p Profile) Lost(k *Kernel, wanted, b Backend) []string {
	kept := make(map[string]bool)
	for _, g := range p.Gaps(k, wanted, nil) {
		kept[g.What] = true
	}
	var out []string
	for _, g := range p.Gaps(k, b, nil) {
		if !kept[g.What] {
			out = append(out, g.What)
		}
	}
	return out
}

// totalGaps reports the limits that do not hold for all processes of the plugin together.
func (p Profile) totalGaps(k *Kernel, gap func(missing bool, what, how string)) {
	measured := fmt.Sprintf("memory of all processes together is measured by the host four times a second, and the largest process is killed above %d bytes: for a moment they can use more", p.Resident)
	switch {
	case k.NoCgroup != "":
		gap(p.StartProcesses && p.Resident > 0, measured, k.NoCgroup)
		gap(p.StartProcesses && p.Resident == 0, "memory of all processes together is not limited", "set limits { total { memory } } in its sandbox block")
		gap(p.StartProcesses || !p.Total.None(), "processor time of all processes together is not limited", k.NoCgroup)
	default:
		gap(p.StartProcesses && p.Total.Memory == 0 && p.Resident > 0, measured, "set limits { total { memory } } in its sandbox block: a cgroup then limits it")
		gap(p.StartProcesses && p.Total.Memory == 0 && p.Resident == 0, "memory of all processes together is not limited", "set limits { total { memory } } in its sandbox block")
	}
}
