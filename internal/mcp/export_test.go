package mcp

// AskSoon is Ask with less patience for servers that do not know the newest revision.
var AskSoon = ask
