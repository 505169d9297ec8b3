package branches

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"toolhost.dev/host/cmd/test/hosttest"
)

// asksToApply begins to apply the branch "work", and returns the id of the ask and what the ask shows. It fails if the
// apply ends without an ask.
func (d *door) asksToApply() (done <-chan string, ask, diff string) {
	d.T.Helper()
	done = d.begin("POST", "/v1/branches/work/apply", "")
	hosttest.Wait(d.T, "the ask of the apply", func() bool {
		select {
		case out := <-done:
			d.T.Fatalf("nobody was asked: %s", out)
		default:
		}
		return strings.TrimSpace(d.boss.Want(200, "", "GET", "/v1/asks", "")) != "[]"
	})
	ask, shown := d.ask("the ask of the apply")
	return done, ask, diffOf(&shown)
}

// must runs commands of the caller in the branch "work".
func (d *door) must(want string, commands ...string) (out string) {
	d.T.Helper()
	for _, command := range commands {
		quoted, err := json.Marshal(command)
		hosttest.Must(d.T, err)
		if out = d.alice.Output(`{"command":` + string(quoted) + `,"branch":"work"}`); !strings.Contains(out, want) {
			d.T.Fatalf("%s: %s", command, out)
		}
	}
	return out
}

// TestAnswerIsForWhatWasShown checks that an accepted apply makes only the changes that the person saw, whatever
// happens to the branch while the request waits.
func TestAnswerIsForWhatWasShown(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	for what, c := range map[string]struct {
		change func(id string)
		want   string
	}{
		"nothing":         {func(string) {}, `"path":"one"`},
		"another command": {func(string) { d.must("", "rm three") }, "changed since a person was shown it"},
		"the undo":        {func(string) { d.must("Undid", "undo") }, "changed since a person was shown it"},
		"an undo and a command": {func(string) {
			d.must("Undid", "undo")
			d.must("", "rm three")
		}, "changed since a person was shown it"},
		"an administrator discards it": {func(id string) { d.root.Want(200, "", "POST", "/v1/branches/"+id+"/discard", "") }, "not_found"},
	} {
		t.Run(what, func(t *testing.T) {
			d.must("", "rm one", "rm two")
			_, id := d.branchID("work")
			done, ask, diff := d.asksToApply()
			if !strings.Contains(diff, "deleted file one") || !strings.Contains(diff, "deleted file two") {
				t.Errorf("the ask shows %s", diff)
			}
			c.change(id)
			d.answer(ask, "accepted")
			if out := <-done; !strings.Contains(out, c.want) {
				t.Errorf("the apply: %s", out)
			}
			for _, name := range []string{"one", "two", "three"} {
				d.remains(what, name, what != "nothing" || name == "three")
			}
			for _, name := range []string{"one", "two", "three"} {
				hosttest.Must(t, os.WriteFile(filepath.Join(d.Dir, name), []byte("x\n"), 0o600))
			}
			d.root.Do("POST", "/v1/branches/"+id+"/discard", "")
		})
	}
}

// TestUndoReleasesNothing checks that a branch still needs the answer after its calls were undone and done again.
func TestUndoReleasesNothing(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.must("", "touch new", "rm one")
	_, to, _ := strings.Cut(d.must("Undid", "undo"), "undo --to ")
	to, _, _ = strings.Cut(to, ".")
	d.must("Undid", "undo --to "+to)
	done, ask, diff := d.asksToApply()
	if !strings.Contains(diff, "deleted file one") {
		t.Errorf("the ask shows %s", diff)
	}
	d.answer(ask, "declined")
	if out := <-done; !strings.Contains(out, "permission_denied") {
		t.Error(out)
	}
	d.remains("undone and done again", "one", true)
}

// TestAdministratorAppliesWhileAsked checks that the audit log tells who applied a branch if an administrator does it
// while its caller waits for an answer that is no.
func TestAdministratorAppliesWhileAsked(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.must("", "rm one")
	_, id := d.branchID("work")
	done, ask, _ := d.asksToApply()
	d.root.Want(200, `"path":"one"`, "POST", "/v1/branches/"+id+"/apply", "")
	d.answer(ask, "declined")
	if out := <-done; !strings.Contains(out, "permission_denied") {
		t.Error(out)
	}
	d.remains("applied by the administrator", "one", false)
	applied := make(map[string]string)
	hosttest.Wait(t, "the audit log has the apply", func() bool {
		var log []struct{ Principal, Tool, Outcome string }
		hosttest.Must(t, json.Unmarshal([]byte(d.root.Want(200, "", "GET", "/v1/log?limit=100", "")), &log))
		for _, e := range log {
			if e.Tool == "(branch apply)" {
				applied[e.Principal] = e.Outcome
			}
		}
		return len(applied) > 0
	})
	if len(applied) != 1 || applied["root"] != "success" {
		t.Errorf("the log has the applies %v", applied)
	}
}
