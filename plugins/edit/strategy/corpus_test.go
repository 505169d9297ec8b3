package strategy_test

import (
	"os"
	"testing"

	"toolhost.dev/plugins/edit/corpus"
	"toolhost.dev/plugins/edit/strategy"
	"toolhost.dev/sdk/workspace/text"
)

// TestCorpus measures the effect of a changed strategy. It runs the cases of the file TOOLHOST_EDIT_CORPUS directly
// through the package. The flag -v prints the cases with a wrong result.
func TestCorpus(t *testing.T) {
	path := os.Getenv("TOOLHOST_EDIT_CORPUS")
	if path == "" {
		t.Skip("TOOLHOST_EDIT_CORPUS names no file of cases")
	}
	cases, err := corpus.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	tally := make(corpus.Tally)
	for _, c := range cases {
		after, how := apply(t, c)
		v := c.Judge(after)
		tally.Add(c.Category, v)
		if v != corpus.Correct {
			t.Logf("%s %s: %s: %s\n got  %.600q", c.ID, c.Category, v, how, after)
		}
	}
	if err := tally.Print(os.Stdout); err != nil {
		t.Fatal(err)
	}
	all, traps := tally.Total(""), tally.Total("trap")
	if n := len(cases); all[corpus.Correct]*100 < n*97 || all[corpus.Wrong]*1000 > n*5 || traps[corpus.Wrong] > 0 {
		t.Errorf("%d of %d are correct, %d wrong (of the traps %d); at least 97%%, at most 0.5%% and none are wanted",
			all[corpus.Correct], n, all[corpus.Wrong], traps[corpus.Wrong])
	}
}

func apply(t *testing.T, c corpus.Case) (after, how string) {
	text, err := text.Decode([]byte(c.Before))
	if err != nil {
		t.Fatal(err)
	}
	if c.OldString == "" && c.Before != "" {
		return c.Before, "the file exists"
	}
	done, err := strategy.Apply(text.Content, strategy.Edit{Old: c.OldString, New: c.NewString, All: c.ReplaceAll}, nil)
	if err != nil {
		return c.Before, err.Error()
	}
	b, err := text.Encode(done.Text)
	if err != nil {
		t.Fatal(err)
	}
	return string(b), done.Strategy
}
