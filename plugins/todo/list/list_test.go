package list

import (
	"slices"
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	long := strings.Repeat("ä", MaxContent)
	for name, c := range map[string]struct {
		items []Item
		want  []string
	}{
		"empty":  {nil, nil},
		"limits": {[]Item{{Content: long, Status: Cancelled, Priority: "low", ID: strings.Repeat("ä", MaxID)}, {Content: "b"}}, nil},
		"all at once": {
			[]Item{{Content: " \n", Status: "later", ID: "x"}, {Content: long + "a", Priority: "top", ID: strings.Repeat("i", MaxID+1)}, {Content: "c", Status: "Pending", ID: "x"}, {Content: "d"}, {Content: "e"}},
			[]string{
				"item 1 has no content", `item 1 has the status "later"; use pending, in_progress, completed or cancelled`,
				"item 2 has 2001 characters, and the limit is 2000", `item 2 has the priority "top"; use high, medium or low`, "item 2 has an id with more than 100 characters",
				`item 3 has the status "Pending"; use pending, in_progress, completed or cancelled`, `item 3 has the id "x" of item 1`,
			},
		},
		"too many":  {slices.Repeat([]Item{{Content: "a"}}, MaxItems+1), []string{"the list has 201 items, and the limit is 200"}},
		"too large": {slices.Repeat([]Item{{Content: long}}, 40), []string{"the list has 160000 bytes, and the limit is 131072"}},
	} {
		if got := Check(slices.Clone(c.items)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestText(t *testing.T) {
	items := []Item{{Content: "a", Status: Completed}, {Content: "b\nmore", Status: InProgress, Priority: "high"}, {Content: "c", Status: Pending}, {Content: "d", Status: Cancelled}}
	if got, want := Text(items), "[x] a\n[~] b\n    more (high)\n[ ] c\n[-] d"; got != want {
		t.Errorf("%q", got)
	}
	if got, want := Summary(items), "1 of 3 done, in progress: b more"; got != want {
		t.Errorf("%q", got)
	}
	if Summary(nil) != "" || Text(nil) != "The list is empty." {
		t.Errorf("%q %q", Summary(nil), Text(nil))
	}
}
