// Package tree creates a tree of source files for measurements. The tree is the same each time.
package tree

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
)

// Files is the number of files in the tree, not counting ignored files.
const Files = 60_000

var (
	verbs = strings.Fields("get set make load store find read write open close parse format render update delete create merge split check build send receive encode decode lock unlock start stop wait notify")
	nouns = strings.Fields("User Order Invoice Session Token Config Handler Request Response Server Client Buffer Cache Index Table Row Column Query Plan Node Edge Graph Tree Leaf Queue Task Worker Pool Event Stream Socket File Path")
)

// Make creates the tree in a directory: packages of 20 files in four languages, and a directory that .gitignore
// excludes.
func Make(dir string) error {
	r := rand.New(rand.NewPCG(60_000, 1)) //nolint:gosec // always the same tree
	if err := write(dir, ".gitignore", "node_modules/\n*.log\n/dist\n"); err != nil {
		return err
	}
	if err := write(dir, ".git/HEAD", "ref: refs/heads/main\n"); err != nil {
		return err
	}
	for i := range Files - 1 {
		pkg := i / 20
		at := fmt.Sprintf("services/group%02d/package%04d", pkg%40, pkg)
		ext := [...]string{"go", "ts", "py", "md"}[r.IntN(4)]
		if err := write(dir, fmt.Sprintf("%s/%s_%02d.%s", at, strings.ToLower(nouns[r.IntN(len(nouns))]), i%20, ext), source(r, i, ext)); err != nil {
			return err
		}
	}
	for i := range 2000 {
		if err := write(dir, fmt.Sprintf("node_modules/module%03d/index%d.js", i/10, i%10), source(r, i, "ts")); err != nil {
			return err
		}
	}
	return write(dir, "README.md", "# The tree\n")
}

func write(dir, name, content string) error {
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(content), 0o600)
}

// source returns a generated source file of about 4 KB.
func source(r *rand.Rand, i int, ext string) string {
	var b strings.Builder
	name := func() string {
		return verbs[r.IntN(len(verbs))] + nouns[r.IntN(len(nouns))] + nouns[r.IntN(len(nouns))]
	}
	fmt.Fprintf(&b, "// File %d of the tree. Generated; do not edit.\n", i)
	for range 20 + r.IntN(30) {
		f, g, v := name(), name(), strings.ToLower(nouns[r.IntN(len(nouns))])
		switch ext {
		case "go":
			fmt.Fprintf(&b, "func %s(ctx context.Context, %s string) error {\n\tif err := %s(ctx, %q); err != nil {\n\t\treturn fmt.Errorf(\"%s: %%w\", err)\n\t}\n\treturn nil\n}\n\n", f, v, g, v, f)
		case "ts":
			fmt.Fprintf(&b, "export async function %s(%s: string): Promise<void> {\n  const result = await %s(%s);\n  console.log(`%s ${result}`);\n}\n\n", f, v, g, v, f)
		case "py":
			fmt.Fprintf(&b, "def %s(self, %s):\n    \"\"\"%s the %s.\"\"\"\n    return self.%s(%s, timeout=%d)\n\n", f, v, f, v, g, v, r.IntN(1000))
		default:
			fmt.Fprintf(&b, "## %s\n\nThe function `%s` takes a %s and calls `%s`. See also %s.\n\n", f, f, v, g, name())
		}
	}
	if i%997 == 0 {
		b.WriteString("// TODO(team): the deadlock in reconcileQuarterlyLedger must be mended\n")
	}
	return b.String()
}
