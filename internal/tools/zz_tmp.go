package tools

import "github.com/inspan/inspan/pkg/tool"

func Builtin() []tool.Tool { return nil }
