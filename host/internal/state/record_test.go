package state

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"
)

// TestRecordEncoding checks that the standard library decodes encoded records to the same content. Another process
// decodes them in this way.
func TestRecordEncoding(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	text := func() raw {
		b := make([]byte, r.IntN(12))
		for i := range b {
			b[i] = byte(r.IntN(256)) >> r.IntN(2) // often ASCII, sometimes not UTF-8
		}
		return raw(b)
	}
	data := func() []byte {
		if r.IntN(5) == 0 {
			return nil
		}
		return []byte(text())
	}
	for range 3000 {
		want := &record{Seq: r.Uint64()}
		for range r.IntN(3) {
			want.Sessions = append(want.Sessions, sessionRecord{text(), text(), text()})
			want.Files = append(want.Files, fileRecord{text(), text(), r.Int64() - r.Int64(), r.Int64(), data(), r.IntN(2) == 0, r.IntN(2) == 0})
			want.States = append(want.States, stateRecord{text(), text(), data()})
			want.History = append(want.History, historyRecord{text(), r.Int64(), text(), text(), r.IntN(2) == 0})
		}
		line := want.encode(nil)
		var got record
		if err := json.Unmarshal(line, &got); err != nil || !reflect.DeepEqual(&got, want) {
			t.Fatalf("%s: %+v, want %+v (%v)", line, got, want, err)
		}
	}
}
