package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"mvdan.cc/sh/v3/syntax"
)

func main() {
	if len(os.Args) > 1 {
		deep(os.Args[1])
		return
	}
	for _, src := range []string{
		"w 'a\r\nb' \"c\r\nd\" $'e\r\nf' x\r\n",
		"w <<'E'\r\na\r\nb\\\r\nc\r\nE\r\n", "w <<E\r\na\r\n$x b\\\r\nc\r\nE\r\n", "w <<-E\n\ta\\\n\tb\n\tE\n", "w a\\\nb \"c\\\nd\"",
		"w <<E\nE\n", "w <<E\nabc\nE", "w 'x\ry'",
		"w <<-'E'\n\ta\n\t\tb $x\n\tE\n",
	} {
		f, err := syntax.NewParser().Parse(strings.NewReader(src), "")
		fmt.Printf("%q err=%v\n", src, err)
		syntax.Walk(f, func(n syntax.Node) bool {
			switch n := n.(type) {
			case *syntax.Lit:
				fmt.Printf("   lit %q src %q\n", n.Value, src[n.Pos().Offset():n.End().Offset()])
			case *syntax.SglQuoted:
				fmt.Printf("   sgl %q src %q\n", n.Value, src[n.Pos().Offset():n.End().Offset()])
			case *syntax.Redirect:
				if n.Hdoc != nil {
					fmt.Printf("   hdoc src %q\n", src[n.Hdoc.Pos().Offset():n.Hdoc.End().Offset()])
				}
			}
			return true
		})
	}
}

type rd struct {
	s     string
	n     int
	max   int
	total time.Duration
}

func (r *rd) Read(b []byte) (int, error) {
	t := time.Now()
	pcs := make([]uintptr, 10_000_000)
	d := runtime.Callers(0, pcs)
	r.total += time.Since(t)
	r.max = max(r.max, d)
	if r.s == "" {
		return 0, fmt.Errorf("too deep")
	}
	n := copy(b, r.s)
	r.s = r.s[n:]
	return n, nil
}

func deep(k string) {
	n := 1000
	for _, f := range []string{"if ", "! ", "$(", "a $(", "${", "${a:-", "`", "((", "{ ", "case x in x) ", "[[ (", "[[ ! ", "a && ", "a | ", "a || ", "while ", "for i in a; do ", "f() ", "<(", "a <(", "\"$(", "a[", "a=(", "$((", "$((a[", "$((-", "$((a?", "$((1+", "((a=", "time ", "coproc ", "@(", "a @(", "function f { ", "\"${a:-\"", "x=$(", "until ", "else ", "a;", "a\n", "<<E\n$(", "let a=", "[[ a && ", "[[ -e a || ", "time -p ", "$((2**", "((a,", "\"\\`", "a \"`", "$[", "select i in a; do ", "{a,", "a <<E\n", "$((!", "((a++ + ", "${a[", "${a/", "${a:", "${!a", "$'", "declare a=(", "[[ a =~ (", "elif ", "((!", "(( (", "export x=", "a & ", "a=([", "a=([1]=", "$((~"} {
		s := strings.Repeat(f, 20000)
		r := &rd{s: s}
		t := time.Now()
		_, err := syntax.NewParser().Parse(r, "")
		e := fmt.Sprint(err)
		if len(e) > 60 {
			e = e[:60]
		}
		fmt.Printf("%-18q read %7d frames %7d  frames/unit %.1f callers %v total %v %v\n", f, len(s)-len(r.s), r.max, float64(r.max)/20000, r.total.Round(time.Millisecond), time.Since(t).Round(time.Millisecond), e)
	}
	_ = n
}
