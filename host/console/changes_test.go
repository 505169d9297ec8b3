package console

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"toolhost.dev/host"
)

func TestInverted(t *testing.T) {
	undo := strings.Join([]string{
		"--- a/x.txt", "+++ b/x.txt", "@@ -1,4 +1,3 @@ func f()", " a", "---- c", "-b", "+++ d", " e", "\\ No newline at end of file",
		"@@ -9 +8 @@", "-new", "\\ No newline at end of file", "+old", "--- a/made.txt", "+++ /dev/null", "@@ -1,2 +0,0 @@", "-hello", "-world", "",
	}, "\n")
	change := strings.Join([]string{
		"--- a/x.txt", "+++ b/x.txt", "@@ -1,3 +1,4 @@ func f()", " a", "-++ d", "+--- c", "+b", " e", "\\ No newline at end of file",
		"@@ -8 +9 @@", "-old", "+new", "\\ No newline at end of file", "--- /dev/null", "+++ b/made.txt", "@@ -0,0 +1,2 @@", "+hello", "+world", "",
	}, "\n")
	if got := inverted(undo); got != change {
		t.Errorf("inverted:\n%s\nwant:\n%s", got, change)
	}
	parts := files(change)
	if len(parts) != 2 || !strings.HasPrefix(parts[0], "--- a/x.txt") || !strings.HasPrefix(parts[1], "--- /dev/null") || strings.Join(parts, "") != change {
		t.Errorf("%d parts: %q", len(parts), parts)
	}
}

const hostile = "<img src=x onerror=alert(1)>\"'\x1b]0;t\x07\x1b[31m\u202e&"

// poison replaces each text in a value with a hostile text.
func poison(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(hostile)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				poison(v.Field(i))
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		poison(v.Index(0))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		poison(key)
		poison(value)
		v.SetMapIndex(key, value)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		poison(v.Elem())
	case reflect.Int, reflect.Int64, reflect.Uint64, reflect.Float64:
		v.Set(reflect.ValueOf(3).Convert(v.Type()))
	default:
	}
}

// TestHostileTexts checks that no text on the pages of rollouts and of the fleet reaches the browser as markup, as a
// control character or as a mark of text direction.
func TestHostileTexts(t *testing.T) {
	rollouts, fleet := new(rolloutsData), new(fleetData)
	poison(reflect.ValueOf(rollouts).Elem())
	rollouts.Rollouts = append(rollouts.Rollouts, rollouts.Rollouts[0])
	rollouts.Rollouts[1].State = "shadow" // a state for which the page shows buttons
	poison(reflect.ValueOf(fleet).Elem())
	fleet.Status.Nodes = append(fleet.Status.Nodes, fleet.Status.Nodes[0])
	fleet.Status.Nodes[1].State = "ready" // a state for which the page shows a button
	c := New(Options{})
	for name, data := range map[string]any{"rollouts": *rollouts, "fleet": *fleet} {
		var b strings.Builder
		v := &view{Title: "x", Page: name, MayAdminister: true, Data: data, Alarms: []host.Alarm{{Kind: hostile, Subject: hostile, Message: hostile}}}
		if err := c.views[name].Execute(&b, v); err != nil {
			t.Fatal(err)
		}
		page := b.String()
		if strings.Count(page, "&lt;img src=x onerror=alert(1)&gt;") < 20 {
			t.Errorf("%s: the texts are missing: %s", name, page)
		}
		for _, bad := range []string{"<img", "\x1b", "\u202e", "\x07"} {
			if i := strings.Index(page, bad); i >= 0 {
				t.Errorf("%s: %q reaches the browser: %q", name, bad, page[max(0, i-200):i+50])
			}
		}
	}
}
