package call

import (
	"slices"
	"testing"

	"toolhost.dev/sdk/tool"
)

func TestDenials(t *testing.T) {
	all := []string{"a", "b", "c", "d", "e", "f", "g"}
	const text = "[a.]\n[b.]\n[c.]\n[d.]\n[e.]\n[The sandbox refused 2 more operations. Correct the causes above first, and run the command again; the metadata of the result lists all of them.]"
	for name, c := range map[string]struct {
		res  *tool.Result
		want string
	}{
		"output":    {&tool.Result{Output: "words\n"}, "words\n" + text},
		"no output": {new(tool.Result), text},
		"failure":   {&tool.Result{Error: tool.Errorf(tool.ExecutionFailed, "words")}, "words\n" + text},
	} {
		NoteDenials(c.res, all)
		got := c.res.Output
		if c.res.Error != nil {
			got = c.res.Error.Message
		}
		if noted, _ := c.res.Metadata["denied"].([]string); got != c.want || !slices.Equal(noted, all) {
			t.Errorf("%s: %q, %v", name, got, c.res.Metadata)
		}
	}
	res := new(tool.Result)
	if NoteDenials(res, nil); res.Metadata != nil || res.Output != "" {
		t.Errorf("%+v", res)
	}
}

func TestSimilarNames(t *testing.T) {
	known := []string{"read", "write"}
	res := &tool.Result{Error: tool.Errorf(tool.ExecutionFailed, "sh: reed: not found\n")}
	original := res.Error
	NoteSimilar(res, "reed", "", known)
	const note = "No tool has that name either. Did you mean \"read\"?"
	if res.Error.Message != "sh: reed: not found\n"+note || res.Metadata["note"] != note || original.Message != "sh: reed: not found\n" {
		t.Errorf("%q, %v", res.Error.Message, res.Metadata)
	}
	res = &tool.Result{Error: tool.Errorf(tool.ExecutionFailed, "x"), Metadata: map[string]any{"note": "other"}}
	NoteSimilar(res, "reed", "", known)
	if res.Metadata["note"] != "other" {
		t.Errorf("%v", res.Metadata)
	}
	res = &tool.Result{Error: tool.Errorf(tool.ExecutionFailed, "x")}
	if NoteSimilar(res, "quite-different", "", known); res.Error.Message != "x" || res.Metadata != nil {
		t.Errorf("%+v", res)
	}
}

func TestDirectory(t *testing.T) {
	const note = "[note: the session stays in /w, because /x is outside of its roots]"
	res := &tool.Result{Output: "words\n"}
	if NoteDirectory(res, "/w", "/x is outside of its roots"); res.Output != "words\n"+note || res.Metadata["note"] != note {
		t.Errorf("%+v", res)
	}
	res = &tool.Result{Error: tool.Errorf(tool.ExecutionFailed, "words")}
	if NoteDirectory(res, "/w", "/x is outside of its roots"); res.Error.Message != "words\n"+note || res.Metadata["note"] != note {
		t.Errorf("%+v", res)
	}
}

// TestWarning checks that a warning follows other notes. It also checks that a shared error stays unchanged.
func TestWarning(t *testing.T) {
	res := &tool.Result{Error: tool.Errorf(tool.ExecutionFailed, "words")}
	before := res.Error
	NoteDenials(res, []string{"denied"})
	NoteWarning(res, "weaker")
	if res.Error.Message != "words\n[denied.]\n[weaker.]" || before.Message != "words" || res.Metadata["warning"] != "weaker" {
		t.Errorf("%q, %q, %v", res.Error.Message, before.Message, res.Metadata)
	}
}
