"""What a report says, as data: sections and findings that any renderer draws. It knows no topic."""
