package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"toolhost.dev/host"

	"toolhost.dev/bench/internal/ripgrep"
	"toolhost.dev/bench/internal/tree"
)

// question is a typical search of an agent, as arguments for toolhost and ripgrep. A search for files also contains
// arguments for fd.
type question struct {
	tool string // "" means grep
	args map[string]any
	rg   []string
	fd   func(dir string) []string
}

// option is an argument of grep together with the equivalent argument of ripgrep.
type option struct {
	name  string
	value any
	rg    []string
}

var (
	ignoreCase = option{"ignore_case", true, []string{"-i"}}
	fixed      = option{"dialect", "fixed", []string{"-F"}}
	multiline  = option{"multiline", true, []string{"-U"}}
	filesOnly  = option{"output_mode", "files_with_matches", []string{"-l"}}
	countOnly  = option{"output_mode", "count", []string{"-c"}}
)

func ofType(name string) option { return option{"type", name, []string{"-t", name}} }
func around(n int) option       { return option{"context", n, []string{"-C", fmt.Sprint(n)}} }
func glob(g string) option      { return option{"glob", []string{g}, []string{"-g", g}} }
func at(path string) option     { return option{"path", path, nil} }

func q(pattern string, options ...option) question {
	out := question{args: map[string]any{"pattern": pattern}}
	path := "./"
	for _, o := range options {
		out.args[o.name] = o.value
		out.rg = append(out.rg, o.rg...)
		if o.name == "path" {
			path = fmt.Sprint(o.value)
		}
	}
	out.rg = append(out.rg, "-n", "-e", pattern, "--", path)
	return out
}

// files returns a question that searches for files whose names match a pattern.
func files(pattern string) question {
	return question{tool: "glob", args: map[string]any{"pattern": pattern}, rg: []string{"--files", "-g", pattern}, fd: func(dir string) []string {
		// The option --full-path is necessary because without it, fd matches a pattern only against file names.
		return []string{"--glob", "--full-path", "--case-sensitive", "--type=f", "--type=l", dir + "/" + pattern}
	}}
}

func (q question) String() string {
	var out []string
	for k, v := range q.args {
		if k != "pattern" {
			out = append(out, fmt.Sprintf("%s=%v", k, v))
		}
	}
	slices.Sort(out)
	return strings.Join(append([]string{q.name(), fmt.Sprint(q.args["pattern"])}, out...), " ")
}

func (q question) name() string {
	if q.tool == "" {
		return "grep"
	}
	return q.tool
}

var goQuestions = []question{
	q("ServeHTTP"), q(`func \(.*\) ServeHTTP\(`), q("TODO"), q("errors.New(", fixed), q(`\bmutexprofile`, ignoreCase), q(`^type \w+ interface`, ofType("go")),
	q("NewRequestWithContext", filesOnly), q("no such text anywhere at all"), q("deadlock|livelock|starvation"), q("func Test", glob("*_test.go"), countOnly),
	q("sync.Mutex", fixed, around(2)), q(`runtime\.GC\(\)`), q("http2", at("net/http")), q(`case \w+Error:`, ofType("go")), q(`if err != nil \{\s+return nil, fmt\.Errorf`, multiline),
	q("copyright 20(09|10)", ignoreCase, filesOnly), q("err"), q(`[A-Z]{8,}_[A-Z]+`), q("return", countOnly), q(`\w+\.Lock\(\)`, glob("net/**")),
}

var treeQuestions = []question{
	q("reconcileQuarterlyLedger"), q(`func getUser\w+\(`), q("TODO"), q("console.log(`parse", fixed), q("loadsessiontoken", ignoreCase), q(`^export async function \w+Cache\w+`, ofType("ts")),
	q("notifyWorkerPool", filesOnly), q("no such text anywhere at all"), q("mergeTreeLeaf|splitGraphEdge|renderRowColumn"), q("def open", glob("*.py"), countOnly),
	q("decodeStreamSocket", around(2)), q(`timeout=99\d`), q("encodeTokenToken", at("services/group07")), q(`the deadlock in \w+`, ofType("go")), q(`waitQueueTask\(.*\{\s+if err`, multiline),
	q("File 59(0|1)00 of the tree"), q("context.Context", fixed, countOnly), q(`stopServer\w*\(ctx`),
}

var fileQuestions = []question{files("**/*_test.go"), files("**/*.go"), files("**/config*.py"), files("**/README.md"), files("**/package12*/*.ts")}

// searching compares grep and glob on a warm index with ripgrep and fd. It also measures code_query.
func searching(ctx context.Context, bin string) error {
	peers := filepath.Join(filepath.Dir(bin), "bench/peers")
	rg, err := ripgrep.Find(peers)
	if err != nil {
		return err
	}
	fd := filepath.Join(peers, "debian/bin/fd")
	if _, err := os.Stat(fd); err != nil {
		fmt.Println("LEFT OUT: glob beside fd, which make peers-debian unpacks")
		fd = ""
	}
	goroot, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return err
	}
	made, err := os.MkdirTemp("", "toolhost-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(made) //nolint:errcheck // a temporary directory
	if made, err = filepath.EvalSymlinks(made); err == nil {
		err = tree.Make(made)
	}
	if err != nil {
		return err
	}
	source, err := filepath.EvalSymlinks(filepath.Join(strings.TrimSpace(string(goroot)), "src"))
	if err != nil {
		return err
	}
	for _, t := range []struct {
		name, dir string
		questions []question
	}{{"Go's source", source, goQuestions}, {fmt.Sprintf("%d files", tree.Files), made, treeQuestions}} {
		s := &searched{bin: bin, dir: t.dir, rg: rg, fd: fd}
		if err := s.all(ctx, t.name, t.questions); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
		if t.dir == source {
			if err := s.symbols(ctx, t.name); err != nil {
				return fmt.Errorf("%s: code_query: %w", t.name, err)
			}
		}
	}
	return nil
}

// searched is a directory tree that all compared programs search.
type searched struct {
	bin, dir string
	rg       *ripgrep.Program
	fd       string // path of fd; empty if fd is not installed
}

// rival is a program that is compared with toolhost.
type rival struct {
	name string
	run  func(context.Context, question) ([]byte, error)
}

func (s *searched) ripgrep() rival {
	return rival{"rg", func(ctx context.Context, q question) ([]byte, error) { return s.rg.Run(ctx, s.dir, q.rg...) }}
}

func (s *searched) findFd() rival {
	return rival{"fd", func(ctx context.Context, q question) ([]byte, error) {
		c := exec.CommandContext(ctx, s.fd, q.fd(s.dir)...) //nolint:gosec // what is measured
		c.Dir = s.dir
		return c.Output()
	}}
}

func (s *searched) all(ctx context.Context, name string, questions []question) error {
	if err := s.first(ctx, name, questions[0]); err != nil {
		return err
	}
	for _, way := range []struct {
		freshness string
		least     float64
	}{{"events", 20}, {"stat", 5}} {
		h, done, err := s.host(ctx, way.freshness)
		if err != nil {
			return err
		}
		err = s.warm(ctx, h)
		if err == nil {
			err = s.contest(ctx, h, s.ripgrep(), fmt.Sprintf("grep, %s, warm, freshness by %s", name, way.freshness), questions, way.least)
		}
		if err == nil && way.freshness == "events" {
			err = s.contest(ctx, h, s.ripgrep(), fmt.Sprintf("glob, %s, warm, beside rg --files", name), fileQuestions, 20)
		}
		if err == nil && way.freshness == "events" && s.fd != "" {
			err = s.contest(ctx, h, s.findFd(), fmt.Sprintf("glob, %s, warm, beside fd", name), fileQuestions, 20)
		}
		if err == nil {
			err = pluginMemory(h)
		}
		done()
		if err != nil {
			return err
		}
	}
	return nil
}

const budgetMB = 512

// host returns a host whose workspace is the tree. The plugin is running, but its index is empty.
func (s *searched) host(ctx context.Context, freshness string) (*host.Host, func(), error) {
	state, err := os.MkdirTemp("", "toolhost-bench")
	if err != nil {
		return nil, nil, err
	}
	config := filepath.Join(state, "toolhost.hcl")
	err = os.WriteFile(config, fmt.Appendf(nil, "bundled = false\nplugin \"grep\" {\n  config {\n    max_line = 0\n    memory_mb = %d\n    freshness = %q\n  }\n}\n", budgetMB, freshness), 0o600)
	if err != nil {
		return nil, nil, err
	}
	h, err := host.New(ctx, host.Options{Workspace: s.dir, StateDir: state, Config: config, BundledDir: filepath.Join(s.bin, "plugins")})
	if err != nil {
		return nil, nil, err
	}
	done := func() {
		_ = h.Close()
		_ = os.RemoveAll(state)
	}
	var one string
	entries, err := os.ReadDir(s.dir)
	for _, e := range entries {
		if e.Type().IsRegular() {
			one = e.Name()
		}
	}
	if err == nil && one != "" { // a search in a single file does not use the index
		_, err = ask(ctx, h, q("x", at(one)))
	}
	if err != nil {
		done()
	}
	return h, done, err
}

type reply struct {
	text  string
	index string
	data  struct {
		Counts map[string]int
		Files  json.RawMessage
		Total  int
	}
}

func ask(ctx context.Context, h *host.Host, q question) (*reply, error) {
	args, err := json.Marshal(q.args)
	if err != nil {
		return nil, err
	}
	res := h.Run(ctx, host.Request{Name: q.name(), Arguments: args}, nil)
	if !res.Success() {
		return nil, res.Error
	}
	r := &reply{text: res.Output}
	r.index, _ = res.Metadata["index"].(string)
	return r, json.Unmarshal(res.Data, &r.data)
}

// warm waits until the index is ready.
func (s *searched) warm(ctx context.Context, h *host.Host) error {
	began := time.Now()
	for time.Since(began) < 2*time.Minute {
		r, err := ask(ctx, h, q("no such text"))
		if err != nil || r.index == "ready" {
			return err
		}
		time.Sleep(200 * time.Millisecond)
	}
	return errors.New("the index is not ready after two minutes")
}

// first measures the first query, which runs before the index exists.
func (s *searched) first(ctx context.Context, name string, question question) error {
	var ours, theirs []time.Duration
	for i := range 7 {
		h, done, err := s.host(ctx, "events")
		if err != nil {
			return err
		}
		began := time.Now()
		r, err := ask(ctx, h, question)
		took := time.Since(began)
		done()
		if err != nil {
			return err
		}
		if r.index == "ready" {
			return errors.New("the first query has an index")
		}
		began = time.Now()
		if _, err := s.rg.Run(ctx, s.dir, question.rg...); err != nil {
			return err
		}
		if i > 0 {
			ours, theirs = append(ours, took), append(theirs, time.Since(began))
		}
	}
	o, t := median(ours), median(theirs)
	fmt.Printf("first query, %s: %s, rg %s, ratio %.2f (at most 1.30: %s)\n", name, millis(o), millis(t), ratio(o, t), verdict(ratio(o, t) <= 1.3))
	return nil
}

// contest checks that toolhost and the other program return the same results. Then it measures both programs
// alternately.
func (s *searched) contest(ctx context.Context, h *host.Host, other rival, title string, questions []question, least float64) error {
	for _, q := range questions {
		if err := s.equal(ctx, h, other, q); err != nil {
			return fmt.Errorf("%s: %w", q, err)
		}
	}
	fmt.Println(title)
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	sum, worst := 0.0, math.Inf(1)
	for _, q := range questions {
		var ours, theirs []time.Duration
		for range 7 {
			began := time.Now()
			r, err := ask(ctx, h, q)
			ours = append(ours, time.Since(began))
			if err != nil {
				return err
			}
			if r.index != "ready" {
				return fmt.Errorf("%s: the index is %s", q, r.index)
			}
			began = time.Now()
			if _, err := other.run(ctx, q); err != nil {
				return err
			}
			theirs = append(theirs, time.Since(began))
		}
		o, t := median(ours), median(theirs)
		speedup := ratio(t, o)
		sum += math.Log(speedup)
		worst = min(worst, speedup)
		fmt.Fprintf(out, "  %s\t%s\t%s %s\t%.1f times\n", q, millis(o), other.name, millis(t), speedup)
	}
	if err := out.Flush(); err != nil {
		return err
	}
	mean := math.Exp(sum / float64(len(questions)))
	fmt.Printf("  geometric mean %.1f times (at least %.0f: %s); the least %.1f (at least 1: %s)\n", mean, least, verdict(mean >= least), worst, verdict(worst >= 1))
	return nil
}

// equal compares the results of toolhost and the other program. It compares the number of matches in each file. If
// there are not too many matches, it also compares the matching lines.
func (s *searched) equal(ctx context.Context, h *host.Host, other rival, question question) error {
	if question.tool == "glob" {
		return s.equalFiles(ctx, h, other, question)
	}
	counted := question
	counted.args = map[string]any{}
	for k, v := range question.args {
		if k != "context" {
			counted.args[k] = v
		}
	}
	counted.args["output_mode"], counted.args["head_limit"] = "count", 0
	r, err := ask(ctx, h, counted)
	if err != nil {
		return err
	}
	want, err := s.rg.Run(ctx, s.dir, append([]string{"-c", "-H"}, question.rg...)...)
	if err != nil {
		return err
	}
	got, _, _ := strings.Cut(r.text, "\n\n[note: ")
	if strings.HasPrefix(got, "[note: ") {
		got = ""
	}
	if slices.Contains(question.rg, "-l") { // -l comes after -c, so ripgrep prints paths and no counts
		got = pathsOf(got)
	}
	if err := sameLines(got, string(want)); err != nil {
		return fmt.Errorf("the counts differ: %w", err)
	}
	if r.data.Total > 5000 || question.args["output_mode"] != nil {
		return nil
	}
	all := question
	all.args = map[string]any{"head_limit": 0}
	for k, v := range question.args {
		all.args[k] = v
	}
	if r, err = ask(ctx, h, all); err != nil {
		return err
	}
	if want, err = s.rg.Run(ctx, s.dir, append([]string{"-H"}, question.rg...)...); err != nil {
		return err
	}
	got, _, _ = strings.Cut(r.text, "\n\n[note: ")
	if strings.HasPrefix(got, "[note: ") {
		got = ""
	}
	return sameLines(got, string(want))
}

func pathsOf(counts string) string {
	var out []string
	for line := range strings.Lines(counts) {
		out = append(out, line[:strings.LastIndexByte(line, ':')])
	}
	return strings.Join(out, "\n")
}

func (s *searched) equalFiles(ctx context.Context, h *host.Host, other rival, question question) error {
	all := question
	all.args = map[string]any{"pattern": question.args["pattern"], "head_limit": 0}
	r, err := ask(ctx, h, all)
	if err != nil {
		return err
	}
	want, err := other.run(ctx, question)
	if err != nil {
		return err
	}
	// Remove hidden files from the results. ripgrep includes them if a glob is set.
	shown := hidden.ReplaceAllString(string(want), "")
	got, _, _ := strings.Cut(r.text, "\n\n[note: ")
	if strings.HasPrefix(got, "[note: ") {
		got = ""
	}
	return sameLines(got, shown)
}

var hidden = regexp.MustCompile(`(?m)^(.*/)?\.[^/\n].*\n`)

var several = regexp.MustCompile("\uFFFD+")

// sameLines compares two texts as sets of lines.
func sameLines(got, want string) error {
	lines := func(s string) []string {
		s = several.ReplaceAllString(string([]rune(s)), "\uFFFD")
		var out []string
		for line := range strings.SplitSeq(strings.TrimSuffix(s, "\n"), "\n") {
			if line = strings.TrimPrefix(line, "./"); line != "--" && line != "" {
				out = append(out, line)
			}
		}
		slices.Sort(out)
		return out
	}
	g, w := lines(got), lines(want)
	if slices.Equal(g, w) {
		return nil
	}
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return fmt.Errorf("%d lines beside %d of ripgrep; %.200q beside %.200q", len(g), len(w), g[i], w[i])
		}
	}
	return fmt.Errorf("%d lines beside %d of ripgrep", len(g), len(w))
}

// pluginMemory prints the memory usage of the plugin.
func pluginMemory(h *host.Host) error {
	for _, p := range h.Status().Plugins {
		if p.Name != "grep" || !p.Running {
			continue
		}
		kb, err := memory(p.PID, "VmRSS:")
		if err != nil {
			return err
		}
		fmt.Printf("memory of the plugin (RSS): %d MB (budget %d MB and 100: %s)\n", kb/1024, budgetMB, verdict(kb/1024 < budgetMB+100))
		return nil
	}
	return io.ErrUnexpectedEOF
}
