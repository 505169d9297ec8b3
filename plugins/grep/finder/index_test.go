package finder

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"toolhost.dev/plugins/grep/index"
	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
)

// TestOverflow makes more changes at once than the kernel can report. The index must notice the lost events and return
// correct answers.
func TestOverflow(t *testing.T) {
	b, err := os.ReadFile("/proc/sys/fs/inotify/max_queued_events")
	if err != nil {
		t.Skip("there is no inotify")
	}
	most, err := strconv.Atoi(strings.TrimSpace(string(b)))
	must(t, err)
	if most > 50_000 {
		t.Skipf("the kernel tells of %d changes", most)
	}
	h := newHost(t, "a.txt=needle\n", "sub/b.txt=needle\n", "sub/c.txt=x\n")
	for i := range 10 { // create these directories before the index, so that they are watched
		h.add(fmt.Sprintf("new/%d/", i))
	}
	hosts := h.inWays("disk", "events")
	same := func(name string) {
		agreeOn(t, name, hosts, "grep", args{"pattern": "needle|changed", "head_limit": 0})
		agreeOn(t, name, hosts, "glob", args{"pattern": "**/*", "head_limit": 0})
	}
	same("before")
	for i := range 12_000 { // the kernel reports three events per file: create, write and close
		h.add(fmt.Sprintf("new/%d/f%d=needle %d\n", i%10, i, i))
	}
	h.add("a.txt=changed\n")
	h.add("sub/c.txt=needle\n")
	must(t, os.Remove(h.path("sub/b.txt")))
	same("after")
	if r := hosts["events"].finder.indexes().Report(); r.Trees[0].Lost == 0 || r.Trees[0].Watched < 12 {
		t.Errorf("no events were lost: %s", r.JSON())
	}
	h.add("new/3/f3=another\n")
	if text, _, d := hosts["events"].grep(args{"pattern": "another"}); text != "new/3/f3:1:another" || d.Searched != 12_002 {
		t.Errorf("and then: %s, %d searched", text, d.Searched)
	}
}

// TestAudit checks that an audit finds changes that no event reports.
func TestAudit(t *testing.T) {
	h := newHost(t, "root/a.txt=old\n")
	out := filepath.Join(h.cwd, "out")
	h.cwd = h.path("root")
	h.roots[0].Path = h.cwd
	h.warm()
	must(t, os.Link(h.path("a.txt"), out))
	must(t, os.WriteFile(out, []byte("needle\n"), 0o666))
	h.finder.indexes().Audit()
	if text, _, _ := h.grep(args{"pattern": "needle"}); text != "a.txt:1:needle" {
		t.Errorf("after an audit: %q", text)
	}
	must(t, os.WriteFile(out, []byte("second needle\n"), 0o666))
	if text, _, _ := h.grep(args{"pattern": "needle"}); text != "a.txt:1:second needle" {
		t.Errorf("once it is known that there is another name: %q", text)
	}
}

// TestRootReplaced checks the answers after the root was replaced by another directory.
func TestRootReplaced(t *testing.T) {
	h := newHost(t, "root/a.txt=needle one\n", "root/sub/b.txt=needle\n")
	top := h.cwd
	h.cwd = filepath.Join(top, "root")
	h.roots[0].Path = h.cwd
	hosts := h.inWays()
	agree(t, "before", hosts)
	must(t, os.Rename(h.cwd, filepath.Join(top, "old")))
	h.add("a.txt=needle two\n")
	h.add("sub/c.txt=needle\n")
	for range 2 { // the first call detects the change, and the second call uses a new index
		agree(t, "replaced", hosts)
		for _, o := range hosts {
			o.indexed()
		}
	}
	must(t, os.RemoveAll(h.cwd))
	for way, o := range hosts {
		if res := o.call("grep", args{"pattern": "needle"}); res.Error == nil {
			t.Errorf("%s: the root is gone, and the answer is %q", way, res.Output)
		}
	}
}

// TestDeletedWhileSearched removes and creates a tree during searches. No call must hang or panic, and the answers must
// be correct afterwards.
func TestDeletedWhileSearched(t *testing.T) {
	h := newHost(t)
	fill := func() {
		for i := range 300 {
			h.add(fmt.Sprintf("tree/d%d/f%d.txt=needle %d\n", i%20, i, i))
		}
	}
	fill()
	hosts := h.inWays("disk", "events", "few")
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for _, o := range hosts {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(5 * time.Millisecond): // give the other goroutine time to change the tree
				}
				for _, a := range []args{{"pattern": "needle"}, {"pattern": "needle", "path": "tree", "hidden": true}, {"pattern": "n+", "output_mode": "count", "offset": 3}} {
					o.call("grep", a)
				}
				o.call("glob", args{"pattern": "**/*.txt"})
			}
		})
	}
	for range 3 {
		must(t, os.RemoveAll(h.path("tree")))
		fill()
	}
	close(stop)
	wg.Wait()
	agree(t, "afterwards", hosts)
}

// TestOddFiles checks that an index and the disk return the same answers for a tree with special files, loops of links
// and unreadable files.
func TestOddFiles(t *testing.T) {
	h := newHost(t, "a.txt=needle\n", "loop/x=needle\n", "loop/up -> ..", "loop/self -> self", "deep/x=needle\n", "secret=needle\n", "locked/x=needle\n")
	must(t, unix.Mkfifo(h.path("fifo"), 0o600))
	f, err := os.Create(h.path("sparse"))
	must(t, err)
	must(t, f.Truncate(5<<30))
	must(t, f.Close())
	must(t, os.Chmod(h.path("secret"), 0))
	must(t, os.Chmod(h.path("locked"), 0))
	t.Cleanup(func() { _ = os.Chmod(h.path("locked"), 0o700) })
	hosts := h.inWays()
	agree(t, "odd files", hosts)
	must(t, os.Chmod(h.path("secret"), 0o600))
	must(t, os.Chmod(h.path("locked"), 0o700))
	agree(t, "permitted", hosts)
	for way, o := range hosts {
		o.refuses("grep", args{"pattern": "x", "path": "/etc"}, tool.Security, "outside")
		o.refuses("grep", args{"pattern": "((a{1000}){1000}){1000}"}, tool.InvalidArguments, "too large")
		o.refuses("grep", args{"pattern": "a("}, tool.InvalidArguments)
		began := time.Now()
		if res := o.call("grep", args{"pattern": "(x+x+)+y|(a|a)*b|(.*)*needle$"}); res.Error != nil {
			t.Errorf("%s: a pattern that makes others hang: %v after %v", way, res.Error, time.Since(began))
		}
	}
}

// TestLargeFile checks that a search finds text in a file that is too large for the index, also after the file has
// shrunk.
func TestLargeFile(t *testing.T) {
	h := newHost(t, "a.txt=needle\n")
	f, err := os.Create(h.path("large.txt"))
	must(t, err)
	_, err = f.WriteString(strings.Repeat("filler\n", 10_000_000) + "needle at the end\n")
	must(t, err)
	must(t, f.Close())
	h.warm()
	if text, _, d := h.grep(args{"pattern": "needle"}); text != "a.txt:1:needle\nlarge.txt:10000001:needle at the end" || d.Searched != 2 {
		t.Errorf("%s, %+v", text, d)
	}
	h.add("large.txt=small needle\n")
	if text, _, d := h.grep(args{"pattern": "needle"}); text != "a.txt:1:needle\nlarge.txt:1:small needle" || d.Searched != 2 {
		t.Errorf("%s, %+v", text, d)
	}
}

// TestMemory checks that the index obeys its memory limit, and that answers do not depend on the limit.
func TestMemory(t *testing.T) {
	h := newHost(t)
	for i := range 400 {
		h.add(fmt.Sprintf("d%d/f%d=%s\nneedle %d\n", i%13, i, strings.Repeat(fmt.Sprintf("line %d of text %d\n", i, i*i), 1500), i))
	}
	hosts := h.inWays()
	agreeOn(t, "much text", hosts, "grep", args{"pattern": "needle", "head_limit": 0})
	agreeOn(t, "much text", hosts, "grep", args{"pattern": "text [0-9]*99$", "output_mode": "count", "head_limit": 0})
	for way, o := range hosts {
		if way == "disk" {
			continue
		}
		r := o.finder.indexes().Report()
		if r.Memory > r.Limit || (way == "small") != (r.Trees[0].Content.Known > 0 || r.Trees[0].Content.Text < 5<<20) {
			t.Errorf("%s: %s", way, r.JSON())
		}
	}
}

// TestTimeLimit checks that a call at its time limit returns the matches found so far.
func TestTimeLimit(t *testing.T) {
	h := newHost(t)
	for i := range 200 {
		h.add(fmt.Sprintf("f%03d=needle\n%s", i, strings.Repeat("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n", 800)))
	}
	for way, o := range h.inWays() {
		o.finder.timeLimit = 5 * time.Millisecond
		text, notes, d := o.grep(args{"pattern": "needle|(a{0,40}){20}b", "head_limit": 0})
		if !strings.Contains(notes, "stopped after 5ms at f") || !d.Truncated || d.Searched >= 200 || strings.Count(text, "needle") != d.Total {
			t.Errorf("%s: %d found in %d files: %s", way, d.Total, d.Searched, notes)
		}
	}
}

// TestHealth checks the state, memory and freshness that the health report contains for each index.
func TestHealth(t *testing.T) {
	h := newHost(t, "a/b.txt=needle\n", "node/x=1")
	for way, freshness := range map[string]string{"events": "events", "stat": "stat"} {
		o := h.inWays()[way]
		health, err := o.plugin.Health(t.Context(), "")
		must(t, err)
		var r index.Report
		must(t, json.Unmarshal(health.Details, &r))
		if health.Status != tool.Healthy || !strings.HasPrefix(health.Message, "1 index ready, ") || r.Memory == 0 || r.Limit != 512<<20 || len(r.Trees) != 1 {
			t.Fatalf("%s: %s %s", way, health.Message, health.Details)
		}
		got := r.Trees[0]
		if got.Path != h.cwd || got.State != index.Ready || got.Entries != 4 || got.Directories != 3 || got.Freshness != freshness || got.Content.Text != 10 {
			t.Errorf("%s: %s", way, health.Details)
		}
	}
}

// TestEndsWithTheHost checks that a search still works after the plugin was closed.
func TestEndsWithTheHost(t *testing.T) {
	h := newHost(t, "a=needle\n")
	h.warm()
	h.finder.plugin().Close()
	if text, _, _ := h.grep(args{"pattern": "needle"}); text != "a:1:needle" {
		t.Errorf("after the end: %q", text)
	}
	_ = sdk.Data(h.finder.indexes().Report())
}
