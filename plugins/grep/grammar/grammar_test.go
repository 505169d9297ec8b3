package grammar

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
)

func TestTree(t *testing.T) {
	s := NewSet()
	defer s.Close()
	err := s.Parse(t.Context(), "python", []byte("def f(x):\n    pass\n\nif x\n"), func(tree *Tree) {
		var got []string
		broken := false
		for i := range tree.Len() {
			got = append(got, tree.Field(i)+":"+tree.Type(i))
			broken = broken || tree.Broken(i)
			if tree.Start(i) > tree.End(i) || tree.End(i) > len(tree.Text) || tree.Next(i) <= i || tree.Next(i) > tree.Len() {
				t.Errorf("node %d: %d-%d, next %d of %d", i, tree.Start(i), tree.End(i), tree.Next(i), tree.Len())
			}
		}
		if all := strings.Join(got, " "); !strings.HasPrefix(all, ":module :function_definition name:identifier parameters:parameters :identifier body:block :pass_statement") || !broken {
			t.Errorf("%s, broken: %t", all, broken)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Parse(t.Context(), "cobol", nil, nil); err == nil {
		t.Error("there is a grammar for COBOL")
	}
	if err := s.Parse(t.Context(), "python", make([]byte, MaxText+1), nil); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a text that is too large: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Parse(ctx, "python", []byte(strings.Repeat("x = 1\n", 10_000)), func(*Tree) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("a parse whose caller is gone: %v", err)
	}
}

// TestEffort checks that a parse stops when it exceeds the effort limit, and that the grammar still works afterwards.
func TestEffort(t *testing.T) {
	s := NewSet()
	defer s.Close()
	if err := s.Parse(t.Context(), "python", []byte(strings.Repeat("<a>", 40_000)), func(*Tree) {}); !errors.Is(err, ErrEffort) {
		t.Errorf("the error is %v", err)
	}
	if err := s.Parse(t.Context(), "python", []byte("x = 1\n"), func(*Tree) {}); err != nil {
		t.Error(err)
	}
}

func TestConcurrent(t *testing.T) {
	s := NewSet()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for _, name := range []string{"c", "python", "java"} {
				if err := s.Parse(t.Context(), name, []byte("class X {}"), func(tree *Tree) {
					if tree.Len() == 0 {
						t.Error("no nodes")
					}
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	s.Close()
	if err := s.Parse(t.Context(), "c", nil, nil); err == nil {
		t.Error("a set that is closed parses")
	}
}

// FuzzParse checks that for any text, the parser returns either an error or a tree of properly nested nodes.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"def f(): pass", "const x = `${1}`;", "fn f<'a>() {}", "class A<T> {};", "#define X(a) a\nint f(void) { }", "<a>{b}</a>"} {
		f.Add(uint8(0), text)
		f.Add(uint8(3), text)
	}
	s := NewSet()
	names := []string{"c", "cpp", "java", "javascript", "python", "rust", "tsx", "typescript"}
	f.Fuzz(func(t *testing.T, language uint8, text string) {
		err := s.Parse(t.Context(), names[int(language)%len(names)], []byte(text), func(tree *Tree) {
			for i := range tree.Len() {
				if tree.Start(i) > tree.End(i) || tree.End(i) > len(text) || tree.Next(i) <= i || tree.Next(i) > tree.Len() {
					t.Errorf("node %d: %d-%d, next %d of %d", i, tree.Start(i), tree.End(i), tree.Next(i), tree.Len())
				}
			}
		})
		if err != nil && !errors.Is(err, ErrEffort) && !errors.Is(err, ErrTooLarge) {
			t.Error(err)
		}
	})
}
