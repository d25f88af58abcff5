"""Does doxascope find the beliefs of models whose beliefs are known, and none where there is none? (DESIGN 4.7)"""
