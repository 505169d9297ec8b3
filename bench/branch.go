package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"toolhost.dev/host"
	"toolhost.dev/host/admin"
)

// branchFiles is the number of files in the measured workspace, and branchChanges is the number of changes that are
// applied.
const (
	branchFiles   = 60_000
	branchChanges = 10_000
)

// branched compares work in a branch with work in the workspace itself. It also compares the creation of a branch with
// the creation of a git worktree.
func branched(ctx context.Context, bin string) error {
	dir, err := os.MkdirTemp("", "toolhost-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary directory
	ws := filepath.Join(dir, "ws")
	if err := makeWorkspace(ctx, ws); err != nil {
		return err
	}
	opts := host.Options{BundledDir: filepath.Join(bin, "plugins"), Workspace: ws, StateDir: filepath.Join(dir, "state")}
	h, err := host.New(ctx, opts)
	if err != nil {
		return err
	}
	defer h.Close() //nolint:errcheck // the measurement is over
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer out.Flush() //nolint:errcheck // the terminal
	if err := createBranches(ctx, out, h, dir, ws); err != nil {
		return err
	}
	if err := callsInBranch(ctx, out, h); err != nil {
		return err
	}
	if err := buildInBranch(ctx, out, h, ws); err != nil {
		return err
	}
	if err := layersOfSizes(ctx, out, h, opts); err != nil {
		return err
	}
	return applyBranch(ctx, out, h, opts)
}

// alternate measures a command alternately in the workspace and in the branch with the given name, and prints the ratio
// of the times.
func alternate(out *tabwriter.Writer, name, what string, warmups, rounds int, most float64, run func(branch string, round int) error) error {
	var times [2][]time.Duration
	for round := range warmups + rounds {
		for k := range times {
			i := (k + round) % len(times)
			d, err := timed(func() error { return run([]string{"", name}[i], round) })
			if err != nil {
				return err
			}
			if round >= warmups {
				times[i] = append(times[i], d)
			}
		}
	}
	fmt.Fprintf(out, "%s\tin a branch\t%v\tin the workspace\t%v\tratio\t%.2f\tof minimums\t%.2f\t(at most %.2f)\n", what, median(times[1]), median(times[0]), ratio(median(times[1]), median(times[0])), ratio(slices.Min(times[1]), slices.Min(times[0])), most)
	return out.Flush()
}

// buildInBranch measures git status and a full rebuild of a program, both in a branch and in the workspace.
func buildInBranch(ctx context.Context, out *tabwriter.Writer, h *host.Host, ws string) error {
	if err := alternate(out, "built", "git status", 2, 10, 1.2, func(branch string, _ int) error { return branchCall(ctx, h, branch, "git status --short | wc -l") }); err != nil {
		return err
	}
	goBinary, err := exec.LookPath("go")
	if err != nil {
		return err
	}
	build := "GOCACHE=$PWD/cache GOPATH=$PWD/gopath GOENV=off GOPROXY=off GOTOOLCHAIN=local GOTELEMETRY=off GOFLAGS= " + goBinary + " build -o /dev/null ."
	program := filepath.Join(ws, "program")
	if err := writePackages(program, 0); err != nil {
		return err
	}
	return alternate(out, "built", fmt.Sprintf("go build of %d changed packages", gatePackages), 1, 5, 1.15, func(branch string, round int) error {
		edit := fmt.Sprintf("cd %s && sed -i 's/n := [0-9]*/n := %d/' p*/p.go && ", program, round+1)
		return branchCall(ctx, h, branch, edit+build)
	})
}

// layersOfSizes measures operations on branches whose layers have different sizes: the list, the diff and the
// checkpoints. The time of these operations should not depend on the size of the workspace.
func layersOfSizes(ctx context.Context, out *tabwriter.Writer, h *host.Host, opts host.Options) error {
	b, err := admin.OpenBranches(opts)
	if err != nil {
		return err
	}
	defer b.Close() //nolint:errcheck // the measurement is over
	for _, n := range []int{10, 1000, branchChanges} {
		name := fmt.Sprintf("layer%d", n)
		command := fmt.Sprintf("find src -type f | head -%d | while read -r f; do echo x >> $f; done", n)
		if err := errors.Join(branchCall(ctx, h, name, command), h.ReleaseBranch(host.Request{Branch: name})); err != nil {
			return err
		}
		fmt.Fprintf(out, "layer of %d changes", n)
		for _, m := range []struct {
			name string
			do   func() error
		}{
			{"list", func() error { _, err := b.Changes(name); return err }},
			{"diff", func() error { return b.Diff(io.Discard, name) }},
			{"first checkpoint", func() error { _, err := b.Checkpoint(ctx, name, "first"); return err }},
			{"next checkpoint (at most 5µs a file)", func() error { _, err := b.Checkpoint(ctx, name, "next"); return err }},
			{"discard", func() error { return b.Discard(ctx, name) }},
		} {
			d, err := timed(m.do)
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "\t%s\t%v\t%.1fµs a change", m.name, d, float64(d.Microseconds())/float64(n))
		}
		fmt.Fprintln(out)
	}
	return out.Flush()
}

// makeWorkspace makes a git repository with many small files. A third of the files are untracked.
func makeWorkspace(ctx context.Context, ws string) error {
	for i := range branchFiles {
		top := "src"
		if i%3 == 0 {
			top = "node_modules"
		}
		path := filepath.Join(ws, top, strconv.Itoa(i%100), strconv.Itoa(i%37), fmt.Sprintf("f%d.go", i))
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			return err
		}
		if err := os.WriteFile(path, fmt.Appendf(nil, "package p\n\n// F%[1]d returns %[1]d.\nfunc F%[1]d() int { return %[1]d }\n", i), 0o600); err != nil {
			return err
		}
	}
	return errors.Join(gitIn(ctx, ws, "init", "-q"), gitIn(ctx, ws, "add", "src"), gitIn(ctx, ws, "-c", "user.name=n", "-c", "user.email=e@example.org", "commit", "-qm", "x"))
}

func gitIn(ctx context.Context, dir string, args ...string) error {
	c := exec.CommandContext(ctx, "git", args...) //nolint:gosec // arguments of this file
	c.Dir = dir
	if text, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("git %v: %w\n%s", args, err, text)
	}
	return nil
}

func branchCall(ctx context.Context, h *host.Host, branch, command string) error {
	if res := h.Run(ctx, host.Request{Command: command, Branch: branch}, nil); !res.Success() {
		return fmt.Errorf("%s: %s", command, res.Error.Message)
	}
	return nil
}

// createBranches measures the time from the creation of a branch to the end of its first command. It compares this time
// with the time for creating a git worktree and copying the untracked files. The first command of a branch also starts
// a process. Therefore, createBranches also prints the difference to the first command in a new session of the
// workspace.
func createBranches(ctx context.Context, out *tabwriter.Writer, h *host.Host, dir, ws string) error {
	var made, base []time.Duration
	for i := range 12 {
		d, err := timed(func() error { return branchCall(ctx, h, fmt.Sprintf("made%d", i), "true") })
		if err != nil {
			return err
		}
		p, err := timed(func() error {
			if res := h.Run(ctx, host.Request{Command: "true", Session: fmt.Sprintf("s%d", i)}, nil); !res.Success() {
				return errors.New(res.Error.Message)
			}
			return nil
		})
		if err != nil {
			return err
		}
		made, base = append(made, d), append(base, p)
	}
	tree := filepath.Join(dir, "worktree")
	worktree, err := timed(func() error {
		return errors.Join(gitIn(ctx, ws, "worktree", "add", "-q", "--detach", tree), exec.CommandContext(ctx, "cp", "-a", filepath.Join(ws, "node_modules"), tree).Run()) //nolint:gosec // paths of this program
	})
	if err != nil {
		return err
	}
	cost := median(made) - median(base)
	fmt.Fprintf(out, "first command in a new branch of %d files\t%v\tin a new session of the workspace\t%v\tdifference\t%v\t(at most 10ms)\n", branchFiles, median(made), median(base), cost)
	fmt.Fprintf(out, "git worktree add and a copy of untracked files\t%v\t÷ first command in a branch\t%.0f\n", worktree, float64(worktree)/float64(median(made)))
	return nil
}

// callsInBranch compares the time of calls in a branch whose process already runs with the time of calls in the
// workspace.
func callsInBranch(ctx context.Context, out *tabwriter.Writer, h *host.Host) error {
	for _, m := range []struct {
		name, command string
		rounds        int
		most          float64
	}{
		{"bash true", "true", 60, 1.15},
		{"read", "read src/1/1/f1.go", 60, 1.2},
		{"grep, warm", "grep F40001", 30, 1.2},
	} {
		err := alternate(out, "work", m.name, 10, m.rounds, m.most, func(branch string, round int) error {
			if round == 1 && m.name == "grep, warm" {
				time.Sleep(2500 * time.Millisecond) // wait for the index, which is built in the background
			}
			return branchCall(ctx, h, branch, m.command)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// applyBranch measures how long it takes to list, apply and revert a branch with many changes.
func applyBranch(ctx context.Context, out *tabwriter.Writer, h *host.Host, opts host.Options) error {
	command := fmt.Sprintf("find src -type f | head -%d | while read -r f; do echo x >> $f; done", branchChanges)
	if err := errors.Join(branchCall(ctx, h, "work", command), h.ReleaseBranch(host.Request{Branch: "work"})); err != nil {
		return err
	}
	b, err := admin.OpenBranches(opts)
	if err != nil {
		return err
	}
	defer b.Close() //nolint:errcheck // the measurement is over
	changes := 0
	for _, m := range []struct {
		name string
		do   func() error
	}{
		{"list of the changes", func() error {
			all, err := b.Changes("work")
			changes = len(all)
			return err
		}},
		{"apply (at most 500ms)", func() error { _, err := b.Apply(ctx, "work", admin.ApplyOptions{}); return err }},
		{"revert", func() error { _, err := b.Revert(ctx, "work"); return err }},
		{"cp -a of the workspace's src, beside it", func() error {
			return exec.CommandContext(ctx, "cp", "-a", filepath.Join(opts.Workspace, "src"), filepath.Join(filepath.Dir(opts.Workspace), "copy")).Run() //nolint:gosec // paths of this program
		}},
		{"discard", func() error { return b.Discard(ctx, "work") }},
	} {
		d, err := timed(m.do)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s\t%d changes\t%v\n", m.name, changes, d)
	}
	return nil
}
