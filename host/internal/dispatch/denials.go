package dispatch

import (
	"fmt"
	"slices"
	"strings"

	"toolhost.dev/sdk/tool"
)

// maxDenials limits how many denials a result shows.
const maxDenials = 5

// addDenials adds to a result what the sandbox refused, which programs rarely report.
func addDenials(res *tool.Result, denials []string) {
	if len(denials) == 0 {
		return
	}
	shown := slices.Clone(denials[:min(len(denials), maxDenials)])
	if more := len(denials) - maxDenials; more > 0 {
		shown = append(shown, fmt.Sprintf("The sandbox refused %d more operations", more))
	}
	for _, text := range shown {
		note := "[" + text + ".]"
		if res.Success() {
			res.Output = strings.TrimPrefix(strings.TrimSuffix(res.Output, "\n")+"\n"+note, "\n")
		} else {
			res.Error.Message = strings.TrimSuffix(res.Error.Message, "\n") + "\n" + note
		}
	}
	annotate(res, "denied", denials)
}
