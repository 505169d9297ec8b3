package registry_test

import (
	"encoding/json"
	"testing"

	"toolhost.dev/host/internal/registry"
	"toolhost.dev/sdk/tool"
)

func TestItems(t *testing.T) {
	r := registry.New()
	add := func(plugin string, items ...tool.Item) {
		t.Helper()
		d := &tool.Description{Name: plugin, Version: "1", Items: items}
		if err := r.Add(plugin, plugin, d, false, func(string) registry.Settings { return registry.Settings{} }); err != nil {
			t.Fatal(err)
		}
	}
	item := func(kind tool.ItemKind, name string) tool.Item {
		return tool.Item{Kind: kind, Name: name, Definition: json.RawMessage(`{}`)}
	}
	add("a", item(tool.ItemPrompt, "review"), item(tool.ItemPrompt, "review"), item(tool.ItemResource, "x:y/z"), tool.Item{Kind: tool.ItemCompletion})
	add("b", item(tool.ItemPrompt, "a_review"), item(tool.ItemPrompt, "b_review"), item(tool.ItemResource, "x:y/z"), item(tool.ItemTemplate, "t:{id}"))
	var got []string
	for _, i := range r.Items() {
		got = append(got, i.FullName()+" "+i.Offered)
	}
	want := []string{
		"a:prompt/review a_review", "a:resource/x:y/z x:y/z", "a:completion/ ",
		"b:prompt/a_review b_a_review", "b:prompt/b_review b_review", "b:resource/x:y/z toolhost://b/x:y%2Fz", "b:template/t:{id} t:{id}",
	}
	if len(got) != len(want) {
		t.Fatalf("%q", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%q, want %q", got[i], want[i])
		}
	}
	// A plugin must get requests only about the kinds of items that it offers.
	if e := r.Relay("a", tool.ItemResource, "x:other"); e == nil || e.FullName() != "a:resource/x:other" || e.Definition.Category != tool.CategoryRelay {
		t.Errorf("%+v", e)
	}
	if e := r.Relay("b", tool.ItemCompletion, ""); e != nil {
		t.Errorf("%+v", e)
	}
	if e := r.Lookup("a", "resource/x:other"); e != nil {
		t.Error("an exchange is registered as a tool")
	}
}
