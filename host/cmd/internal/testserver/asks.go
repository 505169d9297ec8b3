package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// serveAsking runs an MCP server without sessions. Its tool asks a question, with a state of the given size.
func serveAsking() {
	s := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "confirm", Description: "Ask the user to confirm."},
		func(_ context.Context, req *mcp.CallToolRequest, in struct {
			Size int `json:"size"`
		}) (*mcp.CallToolResult, any, error) {
			if len(req.Params.InputResponses) > 0 {
				return &mcp.CallToolResult{Content: []mcp.Content{
					&mcp.TextContent{
						Text: fmt.Sprintf("confirmed with a state of %d bytes", len(req.Params.RequestState)),
					},
				}}, nil, nil
			}
			return &mcp.CallToolResult{
				InputRequests: mcp.InputRequestMap{
					"sure": &mcp.ElicitParams{Message: "Sure?",
						RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}}},
				},
				RequestState: strings.Repeat("s", in.Size),
			}, nil, nil
		})
	if err := s.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		panic(err)
	}
}
