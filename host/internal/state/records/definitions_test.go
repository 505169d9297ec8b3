package records_test

import (
	"encoding/json"
	"log/slog"
	"testing"

	"toolhost.dev/host/internal/state"
	"toolhost.dev/host/internal/state/records"
	"toolhost.dev/sdk/tool"
)

func TestDefinitions(t *testing.T) {
	db, err := state.Open(t.TempDir(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	sum := func(tools ...tool.Definition) records.Sum {
		s, _, err := records.SumOf(tools)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	a := tool.Definition{Name: "a", Description: "A.", Input: json.RawMessage(`{"type": "object"}`)}
	b := tool.Definition{Name: "b", Description: "B.", Input: json.RawMessage(`{no JSON`)}
	other := a
	other.Description = "Another."
	if sum(a, b) != sum(b, a) || sum(a) == sum(a, b) || sum(a) == sum(other) || sum(b) == sum(tool.Definition{Name: "b", Description: "B.", Input: json.RawMessage(`{other`)}) {
		t.Error("the sums do not tell definitions apart")
	}
	found := a
	found.Keywords = []string{"k"}
	if sum(a) != sum(found) {
		t.Error("words for the search need a new approval")
	}
	if string(b.Input) != `{no JSON` {
		t.Error("a sum changed what it is of")
	}

	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(db.Approve("c", "p", []tool.Definition{a}, true))
	must(db.Approve("c", "p", []tool.Definition{other}, true)) // simulates another host that approves the definitions first
	known, err := db.Definitions("c")
	if err != nil || len(known) != 1 || known["p"].Approved != sum(a) || known["p"].Reported != sum(a) {
		t.Errorf("%v %v", known, err)
	}
	for _, want := range []bool{true, false} {
		if told, err := db.Reported("c", "p", sum(other)); told != want || err != nil {
			t.Errorf("told: %v %v", told, err)
		}
	}
	known, err = db.Definitions("c")
	if err != nil || known["p"].Approved != sum(a) || known["p"].Reported != sum(other) {
		t.Errorf("%v %v", known, err)
	}
	must(db.Approve("c", "p", []tool.Definition{other, b}, false))
	tools, err := db.ApprovedTools("c", "p")
	if err != nil || len(tools) != 2 || tools[0].Description != "Another." {
		t.Errorf("%v %v", tools, err)
	}
	if known, err := db.Definitions("elsewhere"); err != nil || len(known) != 0 {
		t.Errorf("%v %v", known, err)
	}
}
