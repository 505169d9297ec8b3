package rawjson_test

import (
	"encoding/json"
	"strings"
	"testing"

	"toolhost.dev/sdk/rawjson"
)

func TestOthers(t *testing.T) {
	for range rawjson.Members([]byte("[1]")) {
		t.Error("an array has members")
	}
	for range rawjson.Elements([]byte(`{"a":1}`)) {
		t.Error("an object has elements")
	}
	if s := rawjson.Text([]byte("12")); s != "" {
		t.Error(s)
	}
}

func BenchmarkValid(b *testing.B) {
	text, _ := json.Marshal(map[string]any{"content": []any{map[string]string{"type": "text", "text": strings.Repeat(strings.Repeat("x", 63)+"\n", 160)}}})
	b.SetBytes(int64(len(text)))
	b.Run("rawjson", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			rawjson.Valid(text)
		}
	})
	b.Run("standard", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			json.Valid(text)
		}
	})
}
