package state_test

import (
	"os"
	"path/filepath"
	"testing"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/state"
)

// TestSizes checks to which part of the state directory the files of plugins count. A plugin says itself which of its
// files are a history of changes.
func TestSizes(t *testing.T) {
	home := state.Home{Root: t.TempDir()}
	for _, name := range []string{
		"plugins/mine/journal.db", "plugins/mine/journal.db-wal", "plugins/mine/old/x/y", "plugins/mine/other", "plugins/mine/output/o",
		"plugins/edit/history.db", "principals/p/mine/journal.db", "principals/p/mine/output/o", "journal/0",
	} {
		path := filepath.Join(home.Root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	history := make(state.UndoFiles)
	history.Add("never-ran", nil)
	history.Add("edit", &tool.Description{})
	history.Add("mine", &tool.Description{Keeps: []tool.Kept{
		{Kind: tool.KeptUndo, Files: []string{"journal.db*", "old", "[", "../../journal/*"}}, {Kind: tool.KeptOutput, Files: []string{"other"}}, {Kind: "else", Files: []string{"*"}},
	}})
	got := home.Sizes(history)
	for part, want := range map[string]int64{state.PartUndo: 4, state.PartOutput: 2, state.PartPlugins: 2, state.PartDatabase: 1, state.PartOther: 0} {
		if got[part] != want {
			t.Errorf("%s: %d bytes, not %d", part, got[part], want)
		}
	}
}
