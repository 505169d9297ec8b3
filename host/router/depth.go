package router

import "mvdan.cc/sh/v3/syntax"

// firstCall returns the first command of a script. It uses an explicit stack instead of recursion, because the syntax
// tree of a million commands has a depth of one million.
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
