package mcp

import (
	"encoding/json"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/inspan/inspan/pkg/tool"
)

// maxWhole is the most bytes of a result that is kept as the server sent it.
const maxWhole = 10 << 20

// show makes of an answer what a model reads: its texts, its images, and a line for each other part. Where there are
// such parts that cannot be shown, or the text is long, the whole answer is kept as an object.
func show(env tool.Env, res *sdk.CallToolResult) tool.Result {
	var parts []string
	var images []tool.Image
	whole := true // all of the answer can be read in the text, or seen
	for _, c := range res.Content {
		if i, ok := picture(c); ok && len(images) < tool.MaxImages {
			images, parts = append(images, i), append(parts, fmt.Sprintf("[image %s]", i))
			continue
		}
		text, plain := part(c)
		parts = append(parts, text)
		whole = whole && plain
	}
	if len(parts) == 0 && res.StructuredContent != nil {
		if b, err := json.Marshal(res.StructuredContent); err == nil {
			parts = append(parts, string(b))
		}
	}
	out := tool.Show(env, strings.Join(parts, "\n"))
	out.Failed, out.Images = res.IsError, images
	if whole {
		return out
	}
	if b, err := json.Marshal(res); err == nil && len(b) <= maxWhole {
		out.Full = b
		return out
	}
	out.Output += "\n[the parts that are not text are too large to be stored]"
	return out
}

// picture is a piece of an answer that the model can be shown, whatever the server says that it is.
func picture(c sdk.Content) (tool.Image, bool) {
	var data []byte
	switch c := c.(type) {
	case *sdk.ImageContent:
		data = c.Data
	case *sdk.EmbeddedResource:
		if c.Resource != nil {
			data = c.Resource.Blob
		}
	}
	i, err := tool.ReadImage(data)
	return i, err == nil
}

// part is one piece of an answer as text; plain is false where the text is not all of it.
func part(c sdk.Content) (text string, plain bool) {
	switch c := c.(type) {
	case *sdk.TextContent:
		return c.Text, true
	case *sdk.ImageContent:
		return fmt.Sprintf("[image %s, %d bytes: stored with the full result]", brief(c.MIMEType), len(c.Data)), false
	case *sdk.AudioContent:
		return fmt.Sprintf("[audio %s, %d bytes: stored with the full result]", brief(c.MIMEType), len(c.Data)), false
	case *sdk.ResourceLink:
		return fmt.Sprintf("[link to %s: %s]", brief(c.URI), brief(c.Name)), true
	case *sdk.EmbeddedResource:
		if c.Resource == nil {
			return "[resource without content]", true
		}
		if c.Resource.Blob != nil {
			return fmt.Sprintf("[resource %s %s, %d bytes: stored with the full result]", brief(c.Resource.URI),
				brief(c.Resource.MIMEType), len(c.Resource.Blob)), false
		}
		return fmt.Sprintf("[resource %s %s]\n%s", brief(c.Resource.URI), brief(c.Resource.MIMEType), c.Resource.Text), true
	}
	return "[a part of an unknown type: stored with the full result]", false
}

// brief cuts a word of the server that should be short.
func brief(s string) string {
	const most = 200
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}
