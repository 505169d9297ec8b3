package router

import (
	"fmt"
	"io"
	"runtime"

	"mvdan.cc/sh/v3/syntax"
)

// The parser descends into what is nested, and a stack that overflows ends the
// process. So the reader looks now and then how deep the parser stands when it asks
// for more text. Between two looks it gets at most 30 frames deeper for each byte.
const (
	maxFrames = 20_000 // some thousands of nested commands, some hundreds of nested expressions
	shallow   = 256    // frames that cost little to look at
	unseen    = 2048   // bytes to read between two looks
)

// depthError ends a parse that went too deep.
type depthError struct{ offset int }

func (e *depthError) Error() string { return fmt.Sprintf("nested too deep at byte %d", e.offset) }

// reader gives the parser its text as long as it does not stand too deep.
type reader struct {
	text   string
	offset int
	looked int // the offset of the last look
}

func (r *reader) Read(b []byte) (int, error) {
	if r.offset == len(r.text) {
		return 0, io.EOF
	}
	if r.offset >= r.looked+unseen {
		if deeper(shallow) && deeper(maxFrames) {
			return 0, &depthError{r.offset}
		}
		r.looked = r.offset
	}
	n := copy(b, r.text[r.offset:])
	r.offset += n
	return n, nil
}

// deeper reports whether the stack has more than that many frames.
func deeper(frames int) bool {
	var pc [1]uintptr
	return runtime.Callers(frames, pc[:]) > 0
}

// firstCall finds the first command word of a script. It keeps its own stack: a list
// of a million commands is a tree a million deep.
func firstCall(stmts []*syntax.Stmt) *syntax.CallExpr {
	var todo []*syntax.Stmt
	push := func(stmts ...*syntax.Stmt) {
		for i := len(stmts) - 1; i >= 0; i-- {
			if stmts[i] != nil {
				todo = append(todo, stmts[i])
			}
		}
	}
	push(stmts...)
	for len(todo) > 0 {
		st := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		switch cmd := st.Cmd.(type) {
		case *syntax.CallExpr:
			if len(cmd.Args) > 0 {
				return cmd
			}
		case *syntax.BinaryCmd:
			push(cmd.X, cmd.Y)
		case *syntax.Subshell:
			push(cmd.Stmts...)
		case *syntax.Block:
			push(cmd.Stmts...)
		case *syntax.IfClause:
			push(cmd.Then...)
			push(cmd.Cond...)
		case *syntax.WhileClause:
			push(cmd.Do...)
			push(cmd.Cond...)
		case *syntax.ForClause:
			push(cmd.Do...)
		case *syntax.CaseClause:
			for i := len(cmd.Items) - 1; i >= 0; i-- {
				push(cmd.Items[i].Stmts...)
			}
		case *syntax.TimeClause:
			push(cmd.Stmt)
		case *syntax.CoprocClause:
			push(cmd.Stmt)
		case *syntax.FuncDecl:
			push(cmd.Body)
		}
	}
	return nil
}
