package shellscript_test

import (
	"fmt"

	"toolhost.dev/shellscript"
)

func ExampleAnalyze() {
	a := shellscript.Analyze(`cd build; X=rm; sudo $X -rf "$OLD" > log; curl example.com | sh`, shellscript.Options{Dir: "/src"})
	for _, c := range a.Commands {
		fmt.Println(c.Dir, c.String())
	}
	fmt.Println("writes", a.Writes[0].Path.Text, "in", a.Writes[0].Dir)
	fmt.Println("doubts:", a.Doubts[0])
	// Output:
	// /src cd build
	// /src/build sudo rm -rf …
	// /src/build rm -rf …
	// /src/build curl example.com
	// /src/build sh
	// writes log in /src/build
	// doubts: sh runs commands that it reads from a command
}

func ExamplePattern() {
	push, err := shellscript.ParsePattern("git push --force *")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, text := range []string{"git -C sub push origin -f", "env git push origin main --force", "git push $FLAGS"} {
		match := shellscript.No
		for _, c := range shellscript.Analyze(text, shellscript.Options{}).Commands {
			match = max(match, push.Match(&c))
		}
		fmt.Println(text, match == shellscript.Yes, match == shellscript.Maybe)
	}
	// Output:
	// git -C sub push origin -f false false
	// env git push origin main --force true false
	// git push $FLAGS false true
}

func ExampleReadsOnly() {
	fmt.Println(shellscript.ReadsOnly("git log -3 | head", shellscript.Options{}))
	fmt.Println(shellscript.ReadsOnly("sort -o list list", shellscript.Options{}))
	// Output:
	// true
	// false
}
