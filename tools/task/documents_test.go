package main

import (
	"os"
	"strings"
	"testing"
)

func TestDocuments(t *testing.T) {
	t.Parallel()
	r, _ := repository(t, nil)
	r.Root = t.TempDir()
	if err := os.MkdirAll(r.Path("docs/adr"), 0o700); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("word ", maxDecision)
	write(t, r.Path("docs/a.md"), "# The `first` page\n\n[b](b.md#two-words), [itself](#the-first-page), [elsewhere](https://example.org/x), [code](../x.go)\n")
	write(t, r.Path("docs/b.md"), "## Two words!\n\n```md\n[in code](none.md)\n```\n")
	write(t, r.Path("docs/adr/0001-long.md"), long)
	write(t, r.Path("docs/adr/README.md"), long+long)
	write(t, r.Path("x.go"), "package x\n")
	files := []string{"docs/a.md", "docs/b.md", "docs/adr/0001-long.md", "docs/adr/README.md", "docs/deleted.md", "x.go"}
	if err := r.documents(files); err != nil {
		t.Error(err)
	}
	write(t, r.Path("docs/c.md"), "[a](none.md) [b](b.md#three-words) [c](#none)\n")
	write(t, r.Path("docs/adr/0001-long.md"), long+"word")
	want := "docs/adr/0001-long.md has 401 words, the limit is 400: describe the feature beside its code\n" +
		"docs/c.md: the link none.md leads to no file\ndocs/c.md: the link b.md#three-words leads to no heading\ndocs/c.md: the link #none leads to no heading"
	if err := r.documents(append(files, "docs/c.md")); err == nil || err.Error() != want {
		t.Errorf("%v\nwant:\n%s", err, want)
	}
}
