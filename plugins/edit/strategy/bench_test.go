package strategy_test

import (
	"fmt"
	"strings"
	"testing"

	"toolhost.dev/plugins/edit/strategy"
)

func source(lines int) string {
	var b strings.Builder
	for i := range lines {
		fmt.Fprintf(&b, "\tif value%d := compute(%d, \"name\"); value%d > limit {\n", i, i*7, i)
	}
	return b.String()
}

func BenchmarkExact1MB(b *testing.B) {
	text := []byte(source(20_000))
	for b.Loop() {
		if _, err := strategy.Apply(text, strategy.Edit{Old: "compute(70000,", New: "measure(70000,"}, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFailing10000Lines(b *testing.B) {
	text := []byte(source(10_000))
	old := "\tif value5 := compute(35, \"name\"); value5 > limit {\n\tnothing like this is there\n\tif value7 := compute(49, \"name\"); value7 > limit {\n"
	for b.Loop() {
		if _, err := strategy.Apply(text, strategy.Edit{Old: old, New: "x"}, nil); err == nil {
			b.Fatal("it was found")
		}
	}
}

// BenchmarkHostile measures inputs that are expensive to process. Each input must be processed quickly and with little
// memory.
func BenchmarkHostile(b *testing.B) {
	const mb = 1 << 20
	same := strings.Repeat("the same line again\n", 100_000)
	long := strings.Repeat("x y  ", mb/5)
	for name, in := range map[string]struct {
		text string
		edit strategy.Edit
	}{
		"128MBExact":        {strings.Repeat("abcdefg\n", 16*mb), strategy.Edit{Old: "nothing", New: "x"}},
		"128MBCRLF":         {strings.Repeat("abcdef\r\n", 16*mb), strategy.Edit{Old: "nothing\n", New: "x"}},
		"128MBFound":        {strings.Repeat("abcdef\r\n", 16*mb-1) + "target\r\n", strategy.Edit{Old: "target", New: "x"}},
		"128MBEmptyLines":   {strings.Repeat("\n", 128*mb), strategy.Edit{Old: "x", New: "y"}},
		"10MBEmptyLines":    {strings.Repeat("\n", 10*mb), strategy.Edit{Old: "x", New: "y"}},
		"10MBEmptyCRLF":     {strings.Repeat("\r\n", 5*mb), strategy.Edit{Old: "x\ny\n\nz", New: "y"}},
		"IdenticalLines":    {same, strategy.Edit{Old: strings.Repeat("the same line again\n", 5000) + "another line\n" + strings.Repeat("the same line again\n", 5000), New: "x"}},
		"IdenticalTrimmed":  {same, strategy.Edit{Old: strings.Repeat(" the same line again\n", 10_000), New: "x"}},
		"IdenticalAll":      {same, strategy.Edit{Old: " the same  line again\n", New: "x\n", All: true}},
		"AllIndented":       {strings.Repeat("\tthe same line again\n", 100_000), strategy.Edit{Old: "    the same line again\n", New: "    x\n      y\n", All: true}},
		"AllExact":          {strings.Repeat("a", 10*mb), strategy.Edit{Old: "a", New: "b", All: true}},
		"LongLines":         {strings.Repeat(long+"\n", 8), strategy.Edit{Old: strings.Repeat("x y ", mb/4) + "z", New: "x"}},
		"LongLinesInside":   {strings.Repeat(long+"\n", 8), strategy.Edit{Old: "x y z", New: "x"}},
		"LongLinesAnchored": {"func main() {\n" + long + "\n}\n", strategy.Edit{Old: "func main() {\n" + strings.Repeat("z y  ", mb/5) + "\n}\n", New: "x"}},
		"OldOf10000Lines":   {source(100_000), strategy.Edit{Old: source(10_000) + "more\n", New: source(9_000)}},
		"BlankEdges":        {source(50_000), strategy.Edit{Old: strings.Repeat("\n", 10_000) + "x" + strings.Repeat("\n", 10_000), New: "x"}},
		"SpacedOut":         {strings.Repeat("a line here\n\n", 100_000), strategy.Edit{Old: strings.Repeat("a line here\n", 10_000), New: "x"}},
		"TabsAndSpaces":     {strings.Repeat(strings.Repeat(" \t", 500)+"x\n", 5_000), strategy.Edit{Old: "x\n" + strings.Repeat("\t ", 5000) + "y", New: "x"}},
		"BigSplice":         {source(60_000), strategy.Edit{Old: "  " + source(60_000), New: "  " + strings.ReplaceAll(source(60_000), "7", "8")}},
		"AnchoredMany":      {strings.Repeat("anchor first\nsome middle line of it\nanchor last\n", 60_000), strategy.Edit{Old: "anchor first\nsome midle line of it\nanchor last\n", New: "x"}},
	} {
		text := []byte(in.text)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = strategy.Apply(text, in.edit, nil)
			}
		})
	}
}
