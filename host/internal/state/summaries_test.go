package state_test

import (
	"maps"
	"strings"
	"testing"

	"toolhost.dev/host/internal/state"
)

// TestSummaries checks the summaries of plugin states. They must be the same before and after the states are written to
// the database.
func TestSummaries(t *testing.T) {
	db := open(t, t.TempDir())
	db.Mask(state.Masking{Command: func(s string) string { return strings.ReplaceAll(s, "hunter2", "***") }})
	for plugin, s := range map[string]string{
		"todo": `{"summary":"1 of 2\n done","todos":[]}`, "secret": `{"summary":"log in with hunter2"}`, "long": `{"summary":"` + strings.Repeat("ä", 201) + `"}`,
		"empty": `{"summary":""}`, "number": `{"summary":5}`, "broken": `{"summary":"x"`, "text": `"summary"`, "none": "",
	} {
		db.SavePluginState("s", plugin, []byte(s))
	}
	db.SavePluginState("other", "todo", []byte(`{"summary":"other"}`))
	db.SaveSession(state.Session{ID: "s"})
	db.SaveSession(state.Session{ID: "other"})
	want := map[string]string{"todo": "1 of 2 done", "secret": "log in with ***", "long": strings.Repeat("ä", 199) + "…"}
	check := func() {
		t.Helper()
		if got, err := db.Summaries("s"); err != nil || !maps.Equal(got, want) {
			t.Errorf("%q %v", got, err)
		}
	}
	check()
	flush(t, db)
	check()
	db.SavePluginState("s", "todo", []byte(`{"summary":"2 of 2 done"}`)) // an unsaved state replaces the saved state
	want["todo"] = "2 of 2 done"
	check()
}
