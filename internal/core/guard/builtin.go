package guard

import "github.com/inspan/inspan/pkg/events"

// Builtin returns the rules that are always there (GUARD-7, GUARD-12). The dangerous half can not be taken out.
func Builtin() []events.Rule {
	deny := func(id, reason string, m events.Match, except *events.Match) events.Rule {
		return events.Rule{ID: id, Tool: "bash", Match: m, Except: except, Action: Deny, Reason: reason, Locked: true}
	}
	ask := func(id, reason string, m events.Match) events.Rule {
		return events.Rule{ID: id, Tool: "bash", Match: m, Action: Ask, Reason: reason}
	}
	git := func(sub string) []string { return []string{"git", sub, "**"} }
	recursive := "-r|-R|--recursive"
	rules := []events.Rule{
		{ID: "outside-workspace", Match: events.Match{PathOutside: "workspace"}, Action: Deny, Reason: "the path leaves the workspace", Locked: true},
		deny("force-push", "rewrites shared history", events.Match{Argv: git("push"), FlagsAny: []string{"-f", "--force", "--mirror"}}, nil),
		deny("force-push-refspec", "rewrites shared history", events.Match{Argv: git("push"), RefspecForce: true}, nil),
		deny("delete-remote-branch", "deletes a shared branch", events.Match{Argv: git("push"), FlagsAny: []string{"-d", "--delete", "--prune"}}, nil),
		deny("hard-reset", "throws work away", events.Match{Argv: git("reset"), FlagsAny: []string{"--hard"}}, nil),
		ask("clean", "deletes files that git does not know", events.Match{Argv: git("clean"), FlagsAny: []string{"-f", "--force"}}),
		ask("discard-changes", "throws changes away", events.Match{Argv: git("checkout"), FlagsAny: []string{"-f", "--force"}}),
		ask("delete-branch", "deletes a branch that may not be merged", events.Match{Argv: git("branch"), FlagsAny: []string{"-D"}}),
		ask("rewrite-history", "rewrites the whole history", events.Match{Argv: []string{"git", "filter-*", "**"}}),
		ask("recursive-delete", "deletes a folder with all that is in it", events.Match{Argv: []string{"rm", "**"}, FlagsAny: []string{recursive}}),
		deny("find-delete", "deletes what it finds", events.Match{Argv: []string{"find", "**", "-delete", "**"}}, nil),
		deny("format-disk", "destroys a file system", events.Match{Argv: []string{"mkfs*", "**"}}, nil),
		deny("raw-disk", "writes to a device", events.Match{Argv: []string{"dd", "**", "of=/dev/*", "**"}}, nil),
	}
	for _, name := range []string{"shutdown", "reboot", "halt", "poweroff"} {
		rules = append(rules, deny("power-"+name, "stops the machine", events.Match{Argv: []string{name, "**"}}, nil))
	}
	for _, d := range dangerous {
		rules = append(rules, deny("recursive-delete-"+d.id, "deletes far more than a build folder",
			events.Match{Argv: []string{"rm", "**", d.target, "**"}, FlagsAny: []string{recursive}}, nil))
	}
	return rules
}

// dangerous targets of a recursive delete, as patterns of one word.
var dangerous = []struct{ id, target string }{
	{"root", "/*"}, {"home", "~*"}, {"parent", "..*"}, {"here", "."}, {"here-slash", "./"}, {"all", `\*`}, {"here-all", `./\*`}, {"git", ".git*"},
}
