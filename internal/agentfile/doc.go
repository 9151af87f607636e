// Package agentfile reads agent definitions: dotprompt files, YAML frontmatter between two lines of three dashes and
// a template below it.
//
// Promises: decoding is strict. A key that is not known is an error with its path, its line and the nearest known
// key; only keys that begin with "x-" or hold a dot are left to others. A key whose capability does not exist yet is
// checked, accepted and reported as a Warning, never dropped in silence. The dialects in use are normalised to one
// form; the same thing said twice with different values is an error. Equal bytes give equal results, and the bytes
// of strangers cause no panic and no unbounded work. YAML anchors, aliases, tags and merge keys are refused.
//
// Absent, empty and false: a key without a value ("tools:") is an error, except for harness, where it means the
// same as leaving it out. An empty list is the same as none. A number of zero is not "no limit" and is refused
// where the least is one; harness.retry.max_retries: 0 means no retry, absent means the default.
//
// Templates are the part of Handlebars that an agent needs, and nothing else:
//
//	{{role "system"}} {{role "user"}}   what follows belongs to that message; before the first one it is system
//	{{userInput}}                       the task
//	{{history}}                         accepted and ignored: the conversation is kept outside the template
//	{{x}} {{input.x}}                   a variable of the task; {{x}} may also be one of Builtins
//	{{! note}} {{!-- note --}}          left out
//	{{~x~}} {{{x}}} \{{                 trimmed space, the same without escaping (nothing is escaped), a literal "{{"
//
// Any other construct (blocks, partials, helpers) is an error that says so. Values are data: they are put in as they
// are and never looked at again, so a task that holds "{{" or a role marker stays text of the message it is in.
package agentfile
