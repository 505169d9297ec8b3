package registry_test

import (
	"encoding/json"
	"testing"

	"toolhost.dev/host/internal/registry"
	"toolhost.dev/sdk/tool"
)

func TestFunctionNames(t *testing.T) {
	r := registry.New()
	add := func(namespace string, names ...string) {
		d := &tool.Description{Name: "p" + namespace, Version: "1"}
		for _, n := range names {
			d.Tools = append(d.Tools, tool.Definition{Name: n, Description: "A tool.", Input: json.RawMessage(`{"type":"object"}`)})
		}
		if err := r.Add("p"+namespace, namespace, d, false, func(string) registry.Settings { return registry.Settings{} }); err != nil {
			t.Fatal(err)
		}
	}
	add("", "read", "git_log")
	add("jira", "search", "jira_find", "jira", "no.dots")
	add("git", "git_log", "git-add")
	add("mcp-server-chart", "generate_word_cloud_chart", "generate_a_very_long_word_cloud_chart", "generate_word_cloud_charts_with_many_more_words", "generate_word_cloud_charts_with_very_many_more_words")
	add("mcp", "an_own_name_that_is_so_long_that_it_fills")
	for alias, target := range map[string]string{"cloud": "generate_word_cloud_chart", "one": "generate_a_very_long_word_cloud_chart", "two": "generate_a_very_long_word_cloud_chart"} {
		if err := r.AddAlias(registry.Alias{Name: alias, Namespace: "mcp-server-chart", Tool: target}); err != nil {
			t.Fatal(err)
		}
	}
	names := r.FunctionNames()
	for full, want := range map[string]string{
		"read": "read", "jira:search": "jira_search", "jira:jira_find": "jira_find", "jira:jira": "jira_jira", "jira:no.dots": "jira_no_dots",
		"git_log": "git_log", "git:git_log": "git_git_log", "git:git-add": "git-add",
		"mcp-server-chart:generate_word_cloud_chart":                            "cloud", // the alias decides
		"mcp-server-chart:generate_a_very_long_word_cloud_chart":                "generate_a_very_long_word_cloud_chart",
		"mcp-server-chart:generate_word_cloud_charts_with_many_more_words":      "generate_word_cloud_charts_with_many_more_words",
		"mcp-server-chart:generate_word_cloud_charts_with_very_many_more_words": "generate_word_cloud_charts_with_cb52a4",
		"mcp:an_own_name_that_is_so_long_that_it_fills":                         "an_own_name_that_is_so_long_that_it_fills",
	} {
		if names[full] != want {
			t.Errorf("%s: %q, want %q", full, names[full], want)
		}
		if r.FullName(names[full]) != full {
			t.Errorf("%q is %q, want %q", names[full], r.FullName(names[full]), full)
		}
	}
	if err := r.AddAlias(registry.Alias{Name: "renamed", Namespace: "jira", Tool: "search"}); err != nil {
		t.Fatal(err)
	}
	if got := r.FunctionNames()["jira:search"]; got != "renamed" {
		t.Errorf("the alias is not used: %q", got)
	}
}
