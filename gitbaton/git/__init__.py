"""The only room that knows git: the binary, libgit2, objects, refs, notes trees and work trees."""
