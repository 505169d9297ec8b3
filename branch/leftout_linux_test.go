package branch

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"toolhost.dev/branch/checkpoint"
)

// goBackTo restores a checkpoint of the branch that is mounted at a path. If through is true, it restores the files
// through the mount. Otherwise it exchanges the layers.
func goBackTo(t *testing.T, b *Branch, at string, number int, through bool, rules CheckpointRules) *Restored {
	t.Helper()
	if !through {
		mustBranch(t, unix.Unmount(at, 0))
		done, err := (&Store{Dir: filepath.Dir(b.dir)}).Undo(b, number, rules)
		mustBranch(t, err)
		mountAt(t, b, at)
		return done
	}
	r, done, err := b.beginRestore(number, true, rules)
	mustBranch(t, err)
	mustBranch(t, errors.Join(b.saves().Rewrite(at, r), b.saves().End(r)))
	return done
}

var repository = map[string]string{".git/HEAD": "ref: refs/heads/main\n", ".git/objects/": "", ".git/refs/": "", ".gitignore": "out\n*.log\nlarge\n.env\n", ".env": "1", "src/a": "1", "src/out/x": "x", "src/out/deep/y": "y", "large/old": "old", "turn": "t"}

// TestIgnoredIsRestoredBySize restores a checkpoint in a repository. Files that git ignores must be restored only if
// they are small. Large ones must stay. Afterwards, a second restore must undo the first one.
func TestIgnoredIsRestoredBySize(t *testing.T) {
	const huge = "; head -c 11000000 /dev/zero > "
	for name, through := range map[string]bool{"through the mount": true, "by an exchange": false} {
		t.Run(name, func(t *testing.T) {
			rules := CheckpointRules{SkipIgnored: true, Bytes: 1 << 30}
			b, at := overlaid(t, repository)
			shell(t, at, "echo l > kept.log; echo 2 > .env; rm src/out/deep/y; mkdir src/out/new; echo n > src/out/new/f"+huge+"large/branch")
			first, err := b.checkpoint(Checkpoint{Call: "c"}, rules)
			mustBranch(t, err)
			if first.Ignored != 1 {
				t.Errorf("%d paths are left out, want 1", first.Ignored)
			}
			want := snapshot(t, at)

			shell(t, at, "rm kept.log; rm -r src/out large; echo 3 > .env; echo n > new.log; mkdir src/out; echo z > src/out/z; rm turn; mkdir -p turn/large gone/large; echo f > gone/file"+huge+"gone/large/f"+huge+"turn/large/f")
			before := snapshot(t, at)
			changes, diff, err := b.Preview(1, rules, 1<<20)
			mustBranch(t, err)
			if len(changes) < 5 || strings.Contains(diff, "gone/large/f") || !strings.Contains(diff, "src/out/new/f") {
				t.Errorf("the preview has %d changes: %s", len(changes), diff)
			}
			done := goBackTo(t, b, at, 1, through, rules)
			if !slices.Equal(done.Stay, []string{"gone/large", "turn/large"}) || !slices.Equal(done.Lost, []string{"large"}) {
				t.Errorf("%q stay and %q are lost", done.Stay, done.Lost)
			}
			now := snapshot(t, at)
			for _, path := range []string{"gone", "gone/large", "gone/large/f", "turn/large", "turn/large/f"} {
				if now[path] != before[path] || now[path] == "" {
					t.Errorf("%s is %q, and was %q", path, now[path], before[path])
				}
				delete(now, path)
			}
			delete(want, "large/branch")
			delete(want, "large")
			delete(now, "large") // exclude the directory, because its times differ
			delete(want, "turn")
			delete(now, "turn") // exclude the directory, because it contains files that stay
			differ(t, "after the undo", now, want)

			goBackTo(t, b, at, done.Saved.Number, through, rules)
			now = snapshot(t, at)
			differ(t, "after the undo of the undo", now, before)
		})
	}
}

// TestCheckpointsOfOlderVersions restores a checkpoint that contains no files that git ignores. All ignored files must
// stay as they are.
func TestCheckpointsOfOlderVersions(t *testing.T) {
	b, at := overlaid(t, repository)
	rules := CheckpointRules{SkipIgnored: true}
	c, err := b.checkpoint(Checkpoint{Call: "c"}, rules)
	mustBranch(t, err)
	c.Ignored = 1
	text, err := json.Marshal(c)
	mustBranch(t, errors.Join(err, os.WriteFile(filepath.Join(b.dir, checkpoint.Dir, "1", "checkpoint.json"), text, 0o600)))
	shell(t, at, "echo l > new.log; echo 2 > .env; echo 2 > src/a; mkdir n; echo n > n/x.log; echo n > n/y")
	want := snapshot(t, at)
	goBackTo(t, b, at, 1, false, rules)
	now := snapshot(t, at)
	for _, path := range []string{"new.log", ".env", "n/x.log"} {
		if now[path] == "" || now[path] != want[path] {
			t.Errorf("%s is %q, want %q", path, now[path], want[path])
		}
	}
	if now["src/a"] == want["src/a"] || now["n/y"] != "" {
		t.Errorf("the rest was not restored: %q %q", now["src/a"], now["n/y"])
	}
}

// TestIgnoredRoom checks which ignored files a checkpoint leaves out if it has little space for them.
func TestIgnoredRoom(t *testing.T) {
	b, at := overlaid(t, repository)
	rules := CheckpointRules{SkipIgnored: true, Bytes: 1 << 20} // 10 KiB for one path, and 100 KiB for all
	shell(t, at, "for i in $(seq 15); do head -c 9000 /dev/zero > $i.log; done; head -c 20000 /dev/zero > large/f; echo s > src/b; mkdir src/out/n; for i in $(seq 2001); do : > src/out/n/$i; done")
	c, err := b.checkpoint(Checkpoint{Call: "c"}, rules)
	mustBranch(t, err)
	entries, err := b.saves().Manifest(c.Number)
	mustBranch(t, err)
	var left []string
	for _, e := range entries {
		if e.LeftOut {
			left = append(left, e.Path)
		}
	}
	if len(left) != 4+2 || !slices.Contains(left, "large") || !slices.Contains(left, "src/out") {
		t.Errorf("%q are left out", left)
	}
	// If only paths that are left out change, the change must not count as a step of undo.
	shell(t, at, "echo more > large/g")
	if _, err := b.checkpoint(Checkpoint{Call: "d"}, rules); err != nil {
		t.Fatal(err)
	}
	if all, err := b.Checkpoints(); err != nil || len(all) != 1 || all[0].Call != "d" {
		t.Errorf("%+v %v", all, err)
	}
	shell(t, at, "rm -r large")
	if _, calls, err := b.Undoable("", 1, rules); err != nil || len(calls) != 1 {
		t.Errorf("%+v %v", calls, err)
	}
}
