//go:build oracle && !race

package filetype

import (
	"testing"

	"toolhost.dev/plugins/grep/internal/peer"
)

func TestOracleTableIsRipgreps(t *testing.T) {
	if out, _ := peer.Run(t, "", peer.Ripgrep(t), "--no-config", "--type-list"); out != table {
		t.Error("types.txt is not what `rg --type-list` prints; write it anew from that")
	}
}
